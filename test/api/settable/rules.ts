import { proof, type Proof, type Proofs, type World } from './world.ts'

/** Saves a rule with a method of its routes. Returns the status if the rule is refused. */
async function save(
  world: World,
  path: string,
  body: object,
  way: string,
): Promise<{ id: string } | { status: number }> {
  const all = `${world.path}/${path}`
  if (way === 'POST') {
    const made = await world.send('admin', 'POST', all, body)
    return made.status === 201 ? { id: made.body.id } : { status: made.status }
  }
  const kind = path === 'rules' ? { verdict: 'allow', match_all: true } : { add_labels: ['other'] }
  const { id } = await world.ok('admin', 'POST', all, { name: 'old', status: 'inactive', ...kind })
  const cleared = way === 'PATCH' && path === 'rules' ? { match_all: null } : {}
  const changed = await world.send('admin', way, `${all}/${id}`, { status: 'active', ...cleared, ...body })
  return changed.status === 200 ? { id } : { status: changed.status }
}

const params = { to: 'abc', subject: 'other' }

/** The decision about one mail, made with the saved rule. */
const ofMail =
  (bodyOf: (value: never) => object, call: object = {}): Proof['observe'] =>
  async (world, value, way) => {
    const saved = await save(world, 'rules', { name: 'r', verdict: 'deny', ...bodyOf(value as never) }, way)
    if ('status' in saved) return saved.status
    const asked = { tool: 'mail_send', params, labels: ['pii'], ...call }
    return (await world.ok('member', 'POST', `${world.path}/rules/test`, { call: asked })).decision
  }

const everything = { match_all: true }
const denied = ['deny', 'allow'] as const
const condition = (one: object, given: object = params) =>
  ofMail(() => ({ params: [one] }), { params: given })

/**
 * Each row is one field `operator`: the two operators that it gets, their value, the tested text, and both decisions.
 */
const operators: readonly [string, string, unknown, string, readonly [string, string]][] = [
  ['equals', 'startswith', 'ab', 'abc', ['allow', 'deny']],
  ['in', 'not_in', ['abc'], 'abc', denied],
  ['not_in', 'in', ['abc'], 'abc', ['allow', 'deny']],
  ['contains', 'startswith', 'b', 'abc', denied],
  ['startswith', 'equals', 'ab', 'abc', denied],
  ['domain_in', 'domain_not_in', ['acme.com'], 'a@acme.com', denied],
  ['domain_not_in', 'domain_in', ['acme.com'], 'a@acme.com', ['allow', 'deny']],
  ['exists', 'equals', true, 'abc', denied],
  ['from_label', 'in', ['pii'], 'abc', denied],
]

/** The approval of an agent's held call: its status after an admin's vote. */
async function heldCall(world: World, body: object, way: string) {
  await world.settings({ approvals_enabled: true })
  await save(world, 'rules', { name: 'r', verdict: 'require_approval', tools: ['Write'], ...body }, way)
  const { approval_id: id } = await world.ask('Write', { file_path: 'a' })
  const before = await world.ok('admin', 'GET', `/approvals/${id}`)
  const vote = await world.send('admin', 'POST', `/approvals/${id}/approve`, {})
  return { before, vote: vote.status, after: await world.ok('admin', 'GET', `/approvals/${id}`) }
}

const shown =
  (path: string, name: string, body: object): Proof['observe'] =>
  async (world, value, way) => {
    const saved = await save(world, path, { name: 'r', ...body, [name]: value }, way)
    return (await world.ok('admin', 'GET', `${world.path}/${path}/${(saved as { id: string }).id}`))[name]
  }

export const ruleProofs: Proofs = {
  name: proof(['one', 'two'], ['one', 'two'], async (world, name, way) => {
    await save(world, 'rules', { name, verdict: 'deny', ...everything }, way)
    return (await world.ask('Read')).reason
  }),
  description: proof(
    ['a', 'b'],
    ['a', 'b'],
    shown('rules', 'description', { verdict: 'deny', ...everything }),
  ),
  verdict: proof(
    ['deny', 'allow'],
    denied,
    ofMail((verdict) => ({ verdict, ...everything })),
  ),
  status: proof(
    ['active', 'inactive'],
    denied,
    ofMail((status) => ({ status, ...everything })),
  ),
  'side_effects[]': proof(
    ['egress', 'read'],
    denied,
    ofMail((side) => ({ side_effects: [side] })),
  ),
  'tools[]': proof(
    ['mail_*', 'file_*'],
    denied,
    ofMail((tool) => ({ tools: [tool] })),
  ),
  'labels.any_of[]': proof(
    ['pii', 'internal'],
    denied,
    ofMail((label) => ({ labels: { any_of: [label] } })),
  ),
  'labels.all_of[]': proof(
    ['pii', 'internal'],
    denied,
    ofMail((label) => ({ labels: { all_of: [label] } })),
  ),
  'labels.none_of[]': proof(
    ['internal', 'pii'],
    denied,
    ofMail((label) => ({ labels: { none_of: [label] } })),
  ),
  'params[].param': proof(
    ['to', 'subject'],
    denied,
    ofMail((param) => ({ params: [{ param, operator: 'equals', value: 'abc' }] })),
  ),
  'params[].value': proof(
    ['abc', 7],
    denied,
    ofMail((value) => ({ params: [{ param: 'to', operator: 'equals', value }] })),
  ),
  'params[].value[]': proof(
    ['abc', true],
    denied,
    ofMail((value) => ({ params: [{ param: 'to', operator: 'in', value: [value] }] })),
  ),
  ...Object.fromEntries(
    operators.map(([operator, other, value, to, seen]) => [
      `params[].operator=${operator}`,
      proof([operator, other], seen, (world, each, way) =>
        condition({ param: 'to', operator: each, value }, { to })(world, each, way),
      ),
    ]),
  ),
  'applies_to[]': proof(
    ['workflows', 'agents'],
    denied,
    ofMail((each) => ({ applies_to: [each], ...everything })),
  ),
  classed: proof(
    [false, true],
    ['deny', 422],
    ofMail((classed) => ({ classed }), { tool: 'mcp__board__get', source: 'agents' }),
  ),
  match_all: proof(
    [true, false],
    ['deny', 422],
    ofMail((match_all) => ({ match_all })),
  ),
  approver: proof(
    ['admin', 'owner'],
    [200, 403],
    async (world, approver, way) => (await heldCall(world, { approver }, way)).vote,
  ),
  approvals_needed: proof(
    [1, 2],
    ['approved', 'pending'],
    async (world, approvals_needed, way) => (await heldCall(world, { approvals_needed }, way)).after.status,
  ),
  expires_after_seconds: proof(
    [0, 60],
    [true, false],
    async (world, expires_after_seconds, way) =>
      (await heldCall(world, { expires_after_seconds }, way)).before.expires_at === null,
  ),
}

const tool = 'mcp__s__get_it'
/** The labels of a session after a call that the rule may match. The labels of the call itself are `internal`. */
const labelled =
  (bodyOf: (value: never) => object, input: object = params): Proof['observe'] =>
  async (world, value, way) => {
    await save(
      world,
      'label-rules',
      { name: 'l', tools: [tool], add_labels: ['pii'], ...bodyOf(value as never) },
      way,
    )
    await world.ask('Grep')
    await world.ask(tool, input)
    const { labels } = await world.ask('Grep')
    return labels.filter((label: string) => label !== 'internal')
  }
const added = [['pii'], []] as const
const addedBy = (seen: readonly [string, string]) =>
  seen.map((word) => (word === 'deny' ? ['pii'] : [])) as [unknown, unknown]

export const labelRuleProofs: Proofs = {
  name: proof(['one', 'two'], ['one', 'two'], shown('label-rules', 'name', { add_labels: ['pii'] })),
  status: proof(
    ['active', 'inactive'],
    added,
    labelled((status) => ({ status })),
  ),
  'tools[]': proof(
    [tool, 'Write'],
    added,
    labelled((each) => ({ tools: [each] })),
  ),
  'labels.any_of[]': proof(
    ['internal', 'other'],
    added,
    labelled((label) => ({ labels: { any_of: [label] } })),
  ),
  'labels.all_of[]': proof(
    ['internal', 'other'],
    added,
    labelled((label) => ({ labels: { all_of: [label] } })),
  ),
  'labels.none_of[]': proof(
    ['other', 'internal'],
    added,
    labelled((label) => ({ labels: { none_of: [label] } })),
  ),
  'params[].param': proof(
    ['to', 'subject'],
    added,
    labelled((param) => ({ params: [{ param, operator: 'equals', value: 'abc' }] })),
  ),
  'params[].value': proof(
    ['abc', 7],
    added,
    labelled((value) => ({ params: [{ param: 'to', operator: 'equals', value }] })),
  ),
  'params[].value[]': proof(
    ['abc', true],
    added,
    labelled((value) => ({ params: [{ param: 'to', operator: 'in', value: [value] }] })),
  ),
  ...Object.fromEntries(
    operators.map(([operator, other, value, to, seen]) => [
      `params[].operator=${operator}`,
      proof([operator, other], addedBy(seen), (world, each, way) => {
        const wanted = operator === 'from_label' ? ['internal'] : value
        return labelled(() => ({ params: [{ param: 'to', operator: each, value: wanted }] }), { to })(
          world,
          each,
          way,
        )
      }),
    ]),
  ),
  'add_labels[]': proof(
    ['pii', 'confidential'],
    [['pii'], ['confidential']],
    labelled((label) => ({ add_labels: [label] })),
  ),
}
