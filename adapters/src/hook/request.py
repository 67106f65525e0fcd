# Requests to the service.

def request(settings, method, path, body, until):
    """Sends one request over its own connection. Returns the status and body of the answer. Raises Unreachable and
    Refused."""
    connection = Connection(settings, until)
    try:
        return connection.exchange(method, path, body)
    finally:
        connection.close()


def ask(settings, method, path, body, until):
    """Sends a request and returns the JSON object of the answer. Raises Unreachable, and Refused for every status but
    200."""
    return answered_object(*request(settings, method, path, body, until))
