"""Quality of service: overload, the fast lane, the price of a no, and whether anything is lost."""
