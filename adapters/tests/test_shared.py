"""What hook and gateway have in common. Each is one file that is copied alone, so the code stands in both; a fix to one
of them that the other lacks is what this finds.

    python3 -m unittest discover adapters/tests
"""

import ast
import os
import unittest

ADAPTERS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# The same names for what each needs in its own way.
OWN = {
    "Call",
    "Connection",
    "Settings",
    "alone",
    "connect",
    "is_id",
    "main",
    "parse_json",
    "pending",
    "to_json",
    "write_all",
}


def definitions(name):
    with open(os.path.join(ADAPTERS, name), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    found = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return {node.name: ast.dump(node) for node in found}


class Shared(unittest.TestCase):
    def test_what_has_one_name_in_both_files_is_one_thing(self):
        hook, gateway = definitions("service_hook.py"), definitions("service_mcp.py")
        both = set(hook) & set(gateway)
        self.assertGreater(len(both - OWN), 20)
        self.assertEqual({name for name in both if hook[name] != gateway[name]}, OWN)


if __name__ == "__main__":
    unittest.main()
