"""Quality of service: overload, the fast lane, what a rejection costs, and whether anything is lost."""
