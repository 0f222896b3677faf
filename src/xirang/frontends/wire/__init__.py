"""HTTP/1.1 itself: bytes to exchanges and back, the order of answers, slow connections, codings."""
