# Requests to the service.

def request(settings, method, path, body, until):
    """One request over its own connection: its status and body. Raises Unreachable and Refused."""
    connection = Connection(settings, until)
    try:
        return connection.exchange(method, path, body)
    finally:
        connection.close()


def ask(settings, method, path, body, until):
    """A request and its JSON object. Raises Refused for every status but 200."""
    return answered_object(*request(settings, method, path, body, until))
