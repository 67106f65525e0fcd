"""The hook's own JSON, which is read and written without the module json where that is possible."""

import json
import unittest

from countersign.shared import json as strict
from countersign.shared.json import parse_json, to_json


class Json(unittest.TestCase):
    ROWS = (
        b'{"a": [1, -2.5, "\\u00e9\\ud83d\\ude00", true, null, {}]}',
        b' {"a":"\xc3\xa9"} \n',
        b'{"half": "\\ud83d"}',
        b'{"big": 123456789012345678901234567890}',
    )
    BAD = (
        "", " ", "{", "{}{}", "{} x", "nonsense", "NaN", '{"a": Infinity}', '{"a": 1, "a": 2}', "[1,]", "'a'",
        "1" * 401, "[" * 100000, '{"a":' * 100000, '"\n"', '"\\x"', "{1: 2}",
    )  # fmt: skip

    def test_it_reads_what_the_module_reads(self):
        for row in self.ROWS:
            self.assertEqual(json.loads(row), parse_json(row.decode("utf-8")))

    def test_it_refuses_the_rest(self):
        for row in self.BAD:
            with self.assertRaises(ValueError, msg=row[:20]):
                parse_json(row)

    def test_it_writes_what_the_module_reads(self):
        for row in self.ROWS:
            value = json.loads(row)
            self.assertEqual(value, json.loads(to_json(value)))
            self.assertEqual(value, json.loads(to_json(value, True).decode("ascii")))
        self.assertEqual('{"a":"é"}'.encode("utf-8"), to_json({"a": "é"}))
        with self.assertRaises(ValueError):
            to_json(float("inf"))
        deep = []
        for _ in range(100000):
            deep = [deep]
        with self.assertRaises(ValueError):
            to_json(deep)

    def test_other_pythons_have_the_module_alone(self):
        kept = strict.scan, strict.encoders
        strict.scan = strict.encoders = None
        try:
            self.test_it_reads_what_the_module_reads()
            self.test_it_refuses_the_rest()
            self.test_it_writes_what_the_module_reads()
        finally:
            strict.scan, strict.encoders = kept


if __name__ == "__main__":
    unittest.main()
