"""Code that both adapters need is in `adapters/src/shared`; `npm run adapters` copies it into both files.

    python3 -m unittest discover adapters/tests
"""

import ast
import glob
import os
import unittest

ADAPTERS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Names that both files have, for code that each needs in its own way.
OWN = {"Call", "alone", "main", "parse_json", "pending", "to_json"}


def definitions(*names):
    found = {}
    for name in names:
        with open(os.path.join(ADAPTERS, name), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found[node.name] = ast.dump(node)
    return found


class Shared(unittest.TestCase):
    def test_a_name_in_both_files_is_defined_in_shared(self):
        hook, gateway = definitions("service_hook.py"), definitions("service_mcp.py")
        shared = definitions(*glob.glob(os.path.join(ADAPTERS, "src", "shared", "*.py")))
        both = set(hook) & set(gateway)
        self.assertGreater(len(shared), 20)
        self.assertEqual(both - OWN, set(shared))
        self.assertEqual({name for name in both if hook[name] != gateway[name]}, OWN)


if __name__ == "__main__":
    unittest.main()
