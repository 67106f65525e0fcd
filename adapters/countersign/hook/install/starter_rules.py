"""The starter rules of `install --starter-rules`."""

import time

from ...shared.decision import answered_object
from ...shared.json import to_json
from ...shared.limits import ASK_SECONDS, Refused, Unreachable
from ...shared.settings import Settings
from ...shared.text import plain
from ..request import request
from ..tool_names import SHELL_TOOLS
from .own_settings import said_now

STARTER_STATUS = {"observe": "shadow", "careful": "active"}
RULES_KEY = "SERVICE_RULES_KEY"
MAX_RULE_PAGES = 1000
# The tools of all clients that run commands or scripts. With `careful`, what they return is labelled like what the
# clients' own tools read.
CODE_TOOLS = SHELL_TOOLS + "Workflow sql Skill activate_skill skill".split()
READ_LABEL = "internal"


class StarterRules:
    """Saves the service's starter rules in the organization of the installation. This needs the key of an admin or
    owner. This class does not save the key."""

    def __init__(self, own, wanted):
        self.wanted = STARTER_STATUS[wanted]
        self.settings = settings = Settings()
        settings.api_url, settings.proxy, settings.ca_file = (own.get(key) for key in ("api_url", "https_proxy", "ca_file"))
        settings.allow_http = own.get("allow_http") in (True, "1", "true", "yes")
        settings.no_proxy = ""
        settings.key = said_now((RULES_KEY, "SERVICE_API_KEY")) or own.get("api_key")
        if not settings.key:
            raise Refused("--starter-rules saves rules: give the key of an admin in %s, it is not saved" % RULES_KEY)
        settings.check()
        try:
            self.organization = self.allowed_organization(own.get("organization_id"))
            self.path = "/organizations/%s/rules" % self.organization
            self.changes = self.missing()  # [(words for people, method, path, body)]
            self.lacking = None  # words for people: what only another key can change
            if self.wanted == "active":
                self.plan_labels()
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Refused("%s does not answer like this version of the service" % settings.api_url)

    def ask(self, method, path, body=None, fine=(200,)):
        """Sends a request. Returns the status and the JSON object of the answer. Raises Refused for every status that
        is not in `fine`."""
        try:
            status, answered = request(
                self.settings, method, path, None if body is None else to_json(body), time.monotonic() + ASK_SECONDS
            )
        except Unreachable as error:
            raise Refused("%s could not be asked: %s" % (self.settings.api_url, error))
        if status in fine and status != 200:
            return status, {}
        try:
            return status, answered_object(status, answered)
        except Refused as error:
            raise Refused("--starter-rules: " + str(error).replace("SERVICE_API_KEY", "the key of " + RULES_KEY))

    def allowed_organization(self, named):
        """Returns the id of the organization that gets the rules. Raises Refused if the key may not save rules
        there."""
        need = "--starter-rules needs the key of an admin, with the scopes rules:read and rules:write, in %s" % RULES_KEY
        advice = "nothing was changed; ask an admin to run this, or leave --starter-rules out"
        status, me = self.ask("GET", "/me", None, (200, 403))
        if status == 403:
            raise Refused("%s; this key can only ask for decisions; %s" % (need, advice))
        named = named or me["organization_id"]
        roles = [one["role"] for one in me["organizations"] if one["id"] == named]
        held = {scope for scope, has in me["scopes"].items() if has}
        self.may_read = bool({"governance:read", "governance:*"} & held)
        self.may_set = roles == ["owner"] and self.may_read and bool({"governance:write", "governance:*"} & held)
        if not roles or roles[0] not in ("admin", "owner"):
            which = "is no member of %s" % named if not roles else "has the role %s there" % plain(roles[0], 50)
            raise Refused("%s; the key's person %s; %s" % (need, which, advice))
        lacking = [scope for scope in ("rules:read", "rules:write") if not {scope, "rules:*"} & held]
        if lacking:
            raise Refused("%s; this key lacks %s; %s" % (need, " and ".join(lacking), advice))
        return named

    def listed(self, path):
        found, cursor = [], ""
        for _ in range(MAX_RULE_PAGES):
            page = self.ask("GET", "%s?limit=50%s" % (path, cursor))[1]
            found += page["data"]
            if not page["next_cursor"]:
                return found
            cursor = "&cursor=" + page["next_cursor"]
        raise Refused("the service's list at %s does not end" % path)

    def missing(self):
        """Returns the changes that are needed. Rules that do not exist are added. With `careful`, a rule in status
        `shadow` becomes active. Nothing else is changed. Example: a rule that a person has switched off stays off."""
        there = {rule["name"]: rule for rule in self.listed(self.path)}
        changes = []
        for template in self.listed("/rule-templates"):
            if template.get("starter") is not True:
                continue
            body = dict(template["body"], status=self.wanted)
            known = there.get(body["name"])
            shown = (plain(body["name"], 200), body["verdict"], self.wanted)
            if known is None:
                changes.append(("save the rule `%s` (%s, %s)" % shown, "POST", self.path, body))
            elif known["status"] == "shadow" and self.wanted == "active":
                path = "%s/%s" % (self.path, known["id"])
                changes.append(("make the rule `%s` (%s) %s" % shown, "PATCH", path, {"status": self.wanted}))
        return changes

    def told(self):
        """Returns the organization's setting `external_tools`."""
        return dict(self.ask("GET", "/organizations/%s/governance" % self.organization)[1]["external_tools"])

    def plan_labels(self):
        """Plans to label what shells read, with the setting `external_tools`. What the setting says already stays: a tool
        that has labels there keeps them."""
        told = self.told() if self.may_read else {}
        new = [name for name in CODE_TOOLS if "output_labels" not in told.get(name, {})]
        kept = [name for name in CODE_TOOLS if READ_LABEL not in told.get(name, {}).get("output_labels", [READ_LABEL])]
        words = "label what %s return as `%s` (setting `external_tools`, %d of its entries stay as they are%s)" % (
            ", ".join("`%s`" % name for name in new),
            READ_LABEL,
            len([name for name in told if name not in new]),
            "; %s without this label" % ", ".join("`%s`" % name for name in kept) if kept else "",
        )
        if new and self.may_set:
            self.changes.append((words, "PATCH", "/organizations/%s/governance" % self.organization, None))
        elif new:
            self.lacking = (
                "what a shell reads does not label its session: let an owner run this again, with a key that also has "
                "the scopes governance:read and governance:write. It would " + words
            )

    def labelled(self):
        """Returns the body of the change of the setting. A change replaces the whole setting, so this reads it again."""
        told = self.told()
        added = {name: dict({"output_labels": [READ_LABEL]}, **told.get(name, {})) for name in CODE_TOOLS}
        return {"external_tools": dict(told, **added)}

    def save(self):
        """Saves the changes. Names of rules are unique in an organization, so another installation at the same time
        creates no second copy."""
        for words, method, path, body in self.changes:
            body = self.labelled() if body is None else body
            try:
                self.ask(method, path, body, (200, 201))
            except Refused:
                if method != "POST" or body["name"] not in [rule["name"] for rule in self.listed(self.path)]:
                    raise
                print("there already: " + words)
            else:
                print("done: " + words)

    def note(self):
        """Returns a note for the person who installs. With `observe`, the note tells where to see the effect of the
        rules. With `careful`, the note says how to turn approvals on. Returns None only if `careful` is wanted and
        approvals are on."""
        if self.wanted == "shadow":
            return "receipts of sessions name the rules that would have held a call (docs/agents.md)"
        status, governance = self.ask("GET", "/organizations/%s/governance" % self.organization, None, (200, 403))
        if status == 200 and governance.get("approvals_enabled") is True:
            return None
        return (
            "while approvals are off, these rules deny: an owner turns approvals on with "
            'PATCH /api/v1/organizations/%s/governance {"approvals_enabled": true}' % self.organization
        )
