# Interprets the rules with OPA: an oracle for src/policy, with which it shares no code.
# Rebuild policy.wasm (opa 1.22.2) after a change, from this folder:
#   opa build --target wasm --entrypoint countersign/decision --output bundle.tar.gz policy.rego &&
#     tar -xzf bundle.tar.gz /policy.wasm && rm bundle.tar.gz
#
# data.policy: rules and label_rules (as saved, in order), approvals_enabled, and how people read texts (texts.ts): ids {text of
# a rule: the form in which it is compared}, written {text of a rule: {whole, parts}, where addresses are
# compared}, domains {as written: normal form}, suffixes {host: public suffix}, places {kind: {text of a rule: {whole, exactly,
# parts, restricting: {wholes, parts}}}} (places.ts).
# input: call {source, tool, side_effect, params, labels, origins: null or [{path, labels}]}, readings {text of the call:
# {id, hosts, addresses}}. A text that names a place is marked, and its reading also has {text, place: {kind, whole,
# spellings}}.
package countersign

rank := {"allow": 0, "require_approval": 1, "deny": 2}

decision := {
	"matched": matched,
	"deciding": deciding,
	"effect": effect,
	"added": added,
}

matched := [i | some i, rule in data.policy.rules; rule.status != "inactive"; matches(rule)]

enforced := [i | some i in matched; data.policy.rules[i].status == "active"]

strictest := max([rank[data.policy.rules[i].verdict] | some i in enforced])

default deciding := null

deciding := min([i | some i in enforced; rank[data.policy.rules[i].verdict] == strictest])

effect := "allow" if {
	deciding == null
} else := "deny" if {
	data.policy.rules[deciding].verdict == "require_approval"
	not data.policy.approvals_enabled
} else := data.policy.rules[deciding].verdict

# --- one rule: all of its conditions hold

matches(rule) if {
	input.call.side_effect in object.get(rule, "side_effects", [input.call.side_effect])
	input.call.source in object.get(rule, "applies_to", [input.call.source])
	names_tool(rule)
	labels_hold(object.get(rule, "labels", {}))
	every condition in object.get(rule, "params", []) {
		holds(condition, rule.verdict != "allow")
	}
}

# --- label rules: added labels restrict, so one element suffices

added := {label |
	some rule in object.get(data.policy, "label_rules", [])
	rule.status == "active"
	names_tool(rule)
	labels_hold(object.get(rule, "labels", {}))
	every condition in object.get(rule, "params", []) {
		holds(condition, true)
	}
	some label in rule.add_labels
}

names_tool(rule) if not rule.tools

names_tool(rule) if {
	some pattern in rule.tools
	glob.match(pattern, null, input.call.tool)
}

call_labels := {label | some label in input.call.labels}

labels_hold(wanted) if {
	any_labelled(wanted)
	count({label | some label in object.get(wanted, "all_of", [])} - call_labels) == 0
	count({label | some label in object.get(wanted, "none_of", [])} & call_labels) == 0
}

any_labelled(wanted) if not wanted.any_of

any_labelled(wanted) if count({label | some label in wanted.any_of} & call_labels) > 0

# --- one condition; `strict`: its rule denies or holds, so one element suffices; to allow, every element must match

negative := {"not_in", "domain_not_in"}

holds(condition, strict) if {
	not condition.operator in {"exists", "from_label"}
	compares(condition, strict)
}

compares(condition, true) if true in outcomes(condition, true)

compares(condition, true) if {
	condition.operator in negative
	is_missing(condition.param)
}

compares(condition, true) if {
	condition.operator in negative
	count(outcomes(condition, true)) == 0
}

compares(condition, false) if {
	outcomes(condition, false) == {true}
	not is_missing(condition.param)
}

holds(condition, true) if {
	condition.operator == "exists"
	condition.value
	is_there(condition.param)
}

holds(condition, true) if {
	condition.operator == "exists"
	not condition.value
	not is_whole(condition.param)
}

holds(condition, false) if {
	condition.operator == "exists"
	condition.value
	is_whole(condition.param)
}

holds(condition, false) if {
	condition.operator == "exists"
	not condition.value
	not is_there(condition.param)
}

holds(condition, _) if {
	condition.operator == "from_label"
	input.call.origins == null
	is_there(condition.param)
	carries(condition, call_labels)
}

holds(condition, strict) if {
	condition.operator == "from_label"
	input.call.origins != null
	carried := {answer |
		some origin in input.call.origins
		concerns(split(condition.param, "."), split(origin.path, "."))
		answer := is_carrier(condition, {label | some label in origin.labels})
	}
	true in carried
	suffices(carried, strict)
}

suffices(_, true)

suffices(carried, false) if not false in carried

carries(condition, labels) if count({label | some label in condition.value} & labels) > 0

is_carrier(condition, labels) if {
	carries(condition, labels)
} else := false

# One path contains the other; the rule's path may leave out list positions.
concerns(rule, built) if agree(rule, built)

concerns(rule, built) if {
	count([part | some part in rule; is_position(part)]) == 0
	agree(rule, [part | some part in built; not is_position(part)])
}

agree(a, b) if {
	every i in numbers.range(0, min([count(a), count(b)]) - 1) {
		same_part(a[i], b[i])
	}
}

same_part("*", _)

same_part(a, b) if a == b

is_position(part) if part in {"0", "1", "2"}

# --- values at a path

outcomes(condition, strict) := {answer |
	condition.operator in {"equals", "in", "contains", "startswith"}
	some leaf in leaves(condition.param)
	answer := judge(condition, strict, leaf)
} | {answer |
	condition.operator == "not_in"
	some leaf in leaves(condition.param)
	answer := is_outside(condition, strict, leaf)
} | {true |
	strict
	some leaf in leaves(condition.param)
	some address in input.readings[leaf.value].addresses
	by_address(condition, leaf, address)
} if {
	not startswith(condition.operator, "domain")
}

outcomes(condition, strict) := {answer |
	some leaf in leaves(condition.param)
	counts_as_recipient(leaf)
	some answer in host_outcomes(condition, strict, leaf.value)
} if {
	startswith(condition.operator, "domain")
}

judge(condition, strict, leaf) := true if {
	compare(condition, leaf)
} else := strict if {
	is_refused(condition, leaf)
} else := true if {
	some value in listed(condition.value)
	names_place(condition.operator, value, leaf, strict)
} else := false

is_outside(condition, strict, leaf) := false if {
	compare(object.union(condition, {"operator": "in"}), leaf)
} else := strict if {
	is_refused(condition, leaf)
} else := false if {
	some value in listed(condition.value)
	names_place("not_in", value, leaf, strict)
} else := true

# The tool refuses a text that should name a place. A rule with numbers alone says nothing about places.
is_refused(condition, leaf) if {
	some value in listed(condition.value)
	is_string(value)
	input.readings[leaf.value].place.whole == null
}

names_place(operator, value, leaf, strict) if {
	operator in {"equals", "in"}
	is_same_place(value, leaf, strict)
}

names_place("not_in", value, leaf, _) if {
	place := input.readings[leaf.value].place
	place.whole == data.policy.places[place.kind][value].exactly
}

# To allow, an exception also holds where it would restrict.
names_place("not_in", value, leaf, false) if restricts_at(value, leaf)

names_place("contains", value, leaf, strict) if {
	leaf.in_list
	is_same_place(value, leaf, strict)
}

names_place("contains", value, leaf, strict) if {
	not leaf.in_list
	some part in parts_of(value, leaf, strict)
	some spelling in input.readings[leaf.value].place.spellings
	contains(spelling, part)
}

names_place("startswith", value, leaf, strict) if {
	some part in parts_of(value, leaf, strict)
	some spelling in input.readings[leaf.value].place.spellings
	startswith(spelling, part)
}

is_same_place(value, leaf, _) if {
	place := input.readings[leaf.value].place
	place.whole == data.policy.places[place.kind][value].whole
}

is_same_place(value, leaf, true) if restricts_at(value, leaf)

# The rule's text may name the place, if its link leads to the host of the connection.
restricts_at(value, leaf) if {
	place := input.readings[leaf.value].place
	place.whole in data.policy.places[place.kind][value].restricting.wholes
}

parts_of(value, leaf, true) := array.concat(wanted.parts, wanted.restricting.parts) if {
	wanted := data.policy.places[input.readings[leaf.value].place.kind][value]
}

parts_of(value, leaf, false) := data.policy.places[input.readings[leaf.value].place.kind][value].parts

# A text of the call without the mark of a place.
unmarked(value) := object.get(input.readings, [value, "text"], value)

# To deny or hold, one address in a text suffices.
by_address(condition, _, address) if {
	condition.operator == "equals"
	address == data.policy.written[condition.value].whole
}

by_address(condition, _, address) if {
	condition.operator == "in"
	some value in condition.value
	address == data.policy.written[value].whole
}

by_address(condition, _, address) if {
	condition.operator == "startswith"
	some part in data.policy.written[condition.value].parts
	startswith(address, part)
}

by_address(condition, leaf, address) if {
	condition.operator == "contains"
	not leaf.in_list
	some value in listed(condition.value)
	contains(value, "@")
	some part in data.policy.written[value].parts
	contains(address, part)
}

by_address(condition, leaf, address) if {
	condition.operator == "contains"
	leaf.in_list
	some value in listed(condition.value)
	address == data.policy.written[value].whole
}

# A condition has one value or a list of them, of which one is enough.
listed(value) := value if is_array(value)

listed(value) := [value] if not is_array(value)

compare(condition, leaf) := identity(leaf.value) == identity(condition.value) if condition.operator == "equals"

compare(condition, leaf) := identity(leaf.value) in {identity(value) | some value in condition.value} if {
	condition.operator == "in"
}

compare(condition, leaf) := true in {includes(value, leaf) | some value in listed(condition.value)} if {
	condition.operator == "contains"
}

compare(condition, leaf) := begins(condition.value, leaf) if condition.operator == "startswith"

includes(value, leaf) if {
	identity(value) == identity(leaf.value)
	is_element(value, leaf)
} else if {
	not is_element(value, leaf)
	is_string(leaf.value)
	contains(unmarked(leaf.value), value)
} else if {
	not is_element(value, leaf)
	is_string(leaf.value)
	contains(unmarked(leaf.value), identity(value))
} else := false

is_element(_, leaf) if leaf.in_list

is_element(value, _) if not is_string(value)

begins(value, leaf) if {
	is_string(leaf.value)
	startswith(unmarked(leaf.value), value)
} else if {
	is_string(leaf.value)
	startswith(identity(leaf.value), identity(value))
} else := false

# A link to a Google file and its bare id are the same.
identity(value) := input.readings[value].id if {
	is_string(value)
} else := data.policy.ids[value] if {
	is_string(value)
} else := value

host_outcomes(condition, _, value) := {condition.operator in negative} if not is_string(value)

host_outcomes(condition, strict, value) := {answer |
	some host in input.readings[value].hosts
	answer := inside(condition, strict, host) != (condition.operator in negative)
} if {
	is_string(value)
}

inside(condition, strict, host) if {
	some written in condition.value
	belongs(host, data.policy.domains[written], strict != (condition.operator in negative))
} else := false

# true: the host is below the domain. false: it also has the domain's registrant, since anybody can register below a public
# suffix.
belongs(host, domain, true) if below(host, domain)

belongs(host, domain, false) if {
	below(host, domain)
	not below(object.get(data.policy.suffixes, host, ""), domain)
}

below(host, domain) if host == domain

below(host, domain) if endswith(host, concat("", [".", domain]))

# --- paths; they continue into all elements of a list

split_path(param) := split(param, ".")

walked(param) := [first, second, third] if {
	parts := split_path(param)
	first := step([{input.call.params}, set()], parts, 0)
	second := step(first, parts, 1)
	third := step(second, parts, 2)
}

step(state, parts, i) := state if i >= count(parts)

step(state, parts, i) := [
	{child | some node in state[0]; some child in children(node, parts[i])},
	state[1] | {"missing" | some node in state[0]; is_dead(node, parts[i])},
] if {
	i < count(parts)
}

children(node, part) := {child | some key, child in node; key_is(key, part)} if is_object(node)

children(node, part) := {child | some i, child in node; format_int(i, 10) == part} if {
	is_array(node)
	is_position(part)
}

children(node, "*") := {child | some child in node} if is_array(node)

children(node, part) := {child |
	some element in node
	is_object(element)
	child := element[part]
} if {
	is_array(node)
	not is_position(part)
	part != "*"
}

children(node, _) := set() if is_scalar(node)

key_is(_, "*")

key_is(key, part) if {
	part != "*"
	key == part
}

is_dead(node, _) if is_scalar(node)

is_dead(node, _) if {
	is_array(node)
	count(node) == 0
}

is_dead(node, part) if {
	is_object(node)
	count(children(node, part)) == 0
}

is_dead(node, part) if {
	is_array(node)
	is_position(part)
	count(children(node, part)) == 0
}

is_dead(node, part) if {
	is_array(node)
	not is_position(part)
	part != "*"
	some element in node
	lacks(element, part)
}

lacks(element, _) if not is_object(element)

lacks(element, part) if {
	is_object(element)
	count(children(element, part)) == 0
}

is_scalar(node) if {
	not is_object(node)
	not is_array(node)
}

nodes(param) := walked(param)[2][0]

is_missing(param) if count(walked(param)[2][1]) > 0

is_there(param) if {
	some node in nodes(param)
	is_something(node)
}

is_something(node) if {
	not is_array(node)
	not unmarked(node) in {null, ""}
}

is_something(node) if {
	is_array(node)
	some element in node
	not unmarked(element) in {null, ""}
}

is_whole(param) if {
	is_there(param)
	not is_missing(param)
}

leaves(param) := {leaf |
	some node in nodes(param)
	walk(node, [path, value])
	is_scalar(value)
	value != null
	leaf := {"value": value, "in_list": ends_in_list(path), "beside": is_beside_address(node, path)}
}

ends_in_list(path) if {
	is_number(path[count(path) - 1])
} else := false

# In an object with an address, the rest only counts as a recipient if it looks like one.
is_beside_address(node, path) if {
	walk(node, [above, holder])
	is_object(holder)
	count(above) < count(path)
	array.slice(path, 0, count(above)) == above
	is_string(holder.email)
	path[count(above)] != "email"
} else := false

counts_as_recipient(leaf) if not leaf.beside

counts_as_recipient(leaf) if {
	is_string(leaf.value)
	some sign in ["@", "://"]
	contains(leaf.value, sign)
}
