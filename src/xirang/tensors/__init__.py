"""The data plane: requests' bytes assembled into runs, outputs split back to their owners."""
