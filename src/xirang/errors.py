"""Everything that can be wrong with a request or a setting, as the caller is told it.

An error's message says what was wrong and what was expected. Each class knows the
HTTP status that names it (RFC 9110, RFC 6585); doors turn it into their own form.
"""


class XirangError(Exception):
    """The root of all errors that are the caller's to see."""

    status = 500


class InvalidRequest(XirangError):
    """The request contradicts the protocol or the model's signature."""

    status = 400


class Unauthorized(XirangError):
    """The request brings no API key, or an unknown one."""

    status = 401


class Forbidden(XirangError):
    """The request's API key does not allow this."""

    status = 403


class UnknownModel(XirangError):
    """No model of that name or version is served."""

    status = 404


class Cancelled(XirangError):
    """The client went away before the answer was ready (a status that nobody reads)."""

    status = 499


class TooLarge(XirangError):
    """The request alone needs more memory than its model may ever have."""

    status = 413


class TooBusy(XirangError):
    """The queue is full or the load is being shed; try again later.

    Attributes:
        retry_after_ns: When a new try is likely to be admitted, from now.
    """

    status = 429

    def __init__(self, message: str, *, retry_after_ns: int = 0) -> None:
        super().__init__(message)
        self.retry_after_ns = retry_after_ns


class ModelFailed(XirangError):
    """The model raised while it ran this request."""

    status = 500


class NotReady(XirangError):
    """The server is loading or draining."""

    status = 503


class Expired(XirangError):
    """The latency budget was spent before the request could run."""

    status = 504


class InvalidSetting(XirangError):
    """A setting or a model that cannot be served, found before the server is ready."""
