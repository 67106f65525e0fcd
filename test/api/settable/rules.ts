import { byOperand } from '../../../src/policy/operators/index.ts'
import { samples } from '../../policy/operator-rows.ts'
import { mail, statusOfRun } from './governance.ts'
import { proof, type Proof, type Proofs, type World } from './world.ts'

/* Rules, label rules, tool policies and their exceptions for roles. */

type Pair = readonly [unknown, unknown]
/** The two values of a field, and the body with a value. */
type Row = readonly [values: Pair, bodyOf: (value: never) => object]

/** Proofs of fields that the same function observes, with the same two effects. */
const table = (
  rows: Readonly<Record<string, Row>>,
  seen: Pair,
  observe: (bodyOf: Row[1]) => Proof['observe'],
): Proofs =>
  Object.fromEntries(
    Object.entries(rows).map(([field, [values, bodyOf]]) => [field, proof(values, seen, observe(bodyOf))]),
  )

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
  (bodyOf: Row[1], call: object = {}): Proof['observe'] =>
  async (world, value, way) => {
    const saved = await save(world, 'rules', { name: 'r', verdict: 'deny', ...bodyOf(value as never) }, way)
    if ('status' in saved) return saved.status
    const asked = { tool: 'mail_send', params, labels: ['pii'], ...call }
    return (await world.ok('member', 'POST', `${world.path}/rules/test`, { call: asked })).decision
  }

const everything = { match_all: true }
const denied = ['deny', 'allow'] as const
const allowed = ['allow', 'deny'] as const
const param = (over: object) => ({ params: [{ param: 'to', operator: 'equals', value: 'abc', ...over }] })

/** What a rule and a label rule look at. The call has the label, and the parameter `to` with the value `abc`. */
const conditions = (label: string): Readonly<Record<string, Row>> => ({
  'labels.any_of[]': [[label, 'other'], (each) => ({ labels: { any_of: [each] } })],
  'labels.all_of[]': [[label, 'other'], (each) => ({ labels: { all_of: [each] } })],
  'labels.none_of[]': [['other', label], (each) => ({ labels: { none_of: [each] } })],
  'params[].param': [['to', 'subject'], (each) => param({ param: each })],
  'params[].value': [['abc', 7], (value) => param({ value })],
  'params[].value[]': [['abc', true], (value) => param({ operator: 'in', value: [value] })],
})

/** One proof for each field `operator`: one of two operators matches the text of the sample, and the other does not. */
const operatorProofs = (
  [match, none]: Pair,
  observe: (operator: string, value: unknown, to: string) => Proof['observe'],
): Proofs =>
  Object.fromEntries(
    [...byOperand.values()].flat().map((operator) => {
      const { other, value, text, fits } = samples[operator]
      return [
        `params[].operator=${operator}`,
        proof([operator, other], fits ? [match, none] : [none, match], (world, each, way) =>
          observe(operator, value, text)(world, each, way),
        ),
      ]
    }),
  )

/** The approval of an agent's held call before and after an admin's vote, and the status of the vote. */
async function heldCall(world: World, body: object, way: string) {
  await world.settings({ approvals_enabled: true })
  await save(world, 'rules', { name: 'r', verdict: 'require_approval', tools: ['Write'], ...body }, way)
  const { approval_id: id } = await world.ask('Write', { file_path: 'a' })
  const before = await world.ok('admin', 'GET', `/approvals/${id}`)
  const vote = await world.send('admin', 'POST', `/approvals/${id}/approve`, {})
  return { before, vote: vote.status, after: await world.ok('admin', 'GET', `/approvals/${id}`) }
}

/** The groups `finance`, with the admin, and `legal`, with nobody. */
async function withGroups(world: World): Promise<void> {
  const groups = `${world.path}/groups`
  await world.ok('owner', 'POST', groups, { name: 'finance', members: [world.people.admin.userId] })
  await world.ok('owner', 'POST', groups, { name: 'legal' })
}

/** A field of a rule that is only information for readers. */
const shown = (path: string, name: string, body: object): Proofs => ({
  [name]: proof(['one', 'two'], ['one', 'two'], async (world, value, way) => {
    const saved = await save(world, path, { name: 'r', ...body, [name]: value }, way)
    return (await world.ok('admin', 'GET', `${world.path}/${path}/${(saved as { id: string }).id}`))[name]
  }),
})

export const ruleProofs: Proofs = {
  name: proof(['one', 'two'], ['one', 'two'], async (world, name, way) => {
    await save(world, 'rules', { name, verdict: 'deny', ...everything }, way)
    return (await world.ask('Read')).reason
  }),
  ...shown('rules', 'description', { verdict: 'deny', ...everything }),
  ...table(
    {
      verdict: [['deny', 'allow'], (verdict) => ({ verdict, ...everything })],
      status: [['active', 'inactive'], (status) => ({ status, ...everything })],
      'side_effects[]': [['egress', 'read'], (side) => ({ side_effects: [side] })],
      'tools[]': [['mail_*', 'file_*'], (tool) => ({ tools: [tool] })],
      'applies_to[]': [['workflows', 'agents'], (each) => ({ applies_to: [each], ...everything })],
      ...conditions('pii'),
    },
    denied,
    ofMail,
  ),
  ...operatorProofs(denied, (_, value, to) =>
    ofMail((operator) => param({ operator, value }), { params: { ...params, to } }),
  ),
  ...table({ match_all: [[true, false], (match_all) => ({ match_all })] }, ['deny', 422], ofMail),
  ...table({ classed: [[false, true], (classed) => ({ classed })] }, ['deny', 422], (bodyOf) =>
    ofMail(bodyOf, { tool: 'mcp__board__get', source: 'agents' }),
  ),
  approver: proof(['admin', 'owner'], [200, 403], async (world, approver, way) => {
    return (await heldCall(world, { approver }, way)).vote
  }),
  'approver.group': proof(['finance', 'legal'], [200, 403], async (world, group, way) => {
    await withGroups(world)
    return (await heldCall(world, { approver: { group } }, way)).vote
  }),
  'approvers[].role': proof(['admin', 'owner'], [200, 403], async (world, role, way) => {
    return (await heldCall(world, { approvers: [{ role, count: 1 }] }, way)).vote
  }),
  'approvers[].group': proof(['finance', 'legal'], [200, 403], async (world, group, way) => {
    await withGroups(world)
    return (await heldCall(world, { approvers: [{ group, count: 1 }] }, way)).vote
  }),
  'approvers[].count': proof([1, 2], ['approved', 'pending'], async (world, count, way) => {
    return (await heldCall(world, { approvers: [{ role: 'admin', count }] }, way)).after.status
  }),
  approvals_needed: proof([1, 2], ['approved', 'pending'], async (world, approvals_needed, way) => {
    return (await heldCall(world, { approvals_needed }, way)).after.status
  }),
  expires_after_seconds: proof([0, 60], [true, false], async (world, expires_after_seconds, way) => {
    return (await heldCall(world, { expires_after_seconds }, way)).before.expires_at === null
  }),
  remind_after_seconds: proof([60, 90], [60, 90], async (world, remind_after_seconds, way) => {
    const { before } = await heldCall(world, { remind_after_seconds }, way)
    const { rows } = await world.api.stack.context.pool.query(
      'select due_at from notices where subject = $1 and due_at is not null',
      [before.id],
    )
    return (rows[0].due_at.getTime() - Date.parse(before.created_at)) / 1_000
  }),
  'escalate[].after_seconds': proof([60, 90], [60, 90], async (world, after_seconds, way) => {
    const { before } = await heldCall(world, { escalate: [{ after_seconds, to: 'owner' }] }, way)
    return (Date.parse(before.approvers[0].also[0].at) - Date.parse(before.created_at)) / 1_000
  }),
  'escalate[].to': proof(['admin', 'owner'], ['admin', 'owner'], async (world, to, way) => {
    await withGroups(world)
    const body = { approver: { group: 'legal' }, escalate: [{ after_seconds: 60, to }] }
    return (await heldCall(world, body, way)).before.approvers[0].also[0].role
  }),
  'approver_may_edit[]': proof(['text', 'subject'], [['text'], ['subject']], async (world, name, way) => {
    const body = { verdict: 'require_approval', tools: ['mail_send'], approver_may_edit: [name] }
    await world.settings({ approvals_enabled: true })
    await save(world, 'rules', { name: 'r', ...body }, way)
    const call = { tool: 'mail_send', params }
    const { approval } = await world.ok('member', 'POST', `${world.path}/rules/test`, { call })
    return approval.approver_may_edit
  }),
  'escalate[].to.group': proof(['finance', 'legal'], ['finance', 'legal'], async (world, group, way) => {
    await withGroups(world)
    const body = { escalate: [{ after_seconds: 60, to: { group } }] }
    return (await heldCall(world, body, way)).before.approvers[0].also[0].group
  }),
}

const tool = 'mcp__s__get_it'
/** The labels of a session after a call that the rule may match. The labels of the call itself are `internal`. */
const labelled =
  (bodyOf: Row[1], input: object = params): Proof['observe'] =>
  async (world, value, way) => {
    const usual = { name: 'l', tools: [tool], add_labels: ['pii'] }
    await save(world, 'label-rules', { ...usual, ...bodyOf(value as never) }, way)
    await world.ask('Grep')
    await world.ask(tool, input)
    const { labels } = await world.ask('Grep')
    return labels.filter((label: string) => label !== 'internal')
  }
const added = [['pii'], []] as const

export const labelRuleProofs: Proofs = {
  ...shown('label-rules', 'name', { add_labels: ['pii'] }),
  ...table(
    {
      status: [['active', 'inactive'], (status) => ({ status })],
      'tools[]': [[tool, 'Write'], (each) => ({ tools: [each] })],
      ...conditions('internal'),
    },
    added,
    labelled,
  ),
  ...operatorProofs(added, (of, value, to) => {
    const wanted = of === 'from_label' ? ['internal'] : value
    return labelled((operator) => param({ operator, value: wanted }), { to })
  }),
  ...table(
    { 'add_labels[]': [['pii', 'confidential'], (label) => ({ add_labels: [label] })] },
    [['pii'], ['confidential']],
    labelled,
  ),
}

/** Saves a policy with a method of its routes, and returns the result of a run or of an agent's call. */
const policy =
  (toolName: string, bodyOf: Row[1], seen: (world: World) => Promise<unknown>): Proof['observe'] =>
  async (world, value, way) => {
    const all = `${world.path}/tool-policies`
    const { role, ...body }: { role?: string } = bodyOf(value as never)
    const whose = role === undefined ? {} : { role }
    const first = { tool_name: toolName, ...(way === 'POST' ? body : { allowed: true }), ...whose }
    await world.ok('owner', 'POST', all, first)
    if (way !== 'POST') await world.ok('owner', 'PATCH', `${all}/${toolName}`, { ...body, ...whose })
    return seen(world)
  }
const decision = async (world: World) => (await world.ask('Bash', { command: 'ls' })).decision
const sent = (world: World) => statusOfRun(world, mail)
const large = async (world: World) => {
  await world.ok('member', 'PUT', '/memory/large', { value: 'x'.repeat(2_000) })
  return statusOfRun(world, { steps: [{ id: 's', tool: 'memory_get', params: { key: 'large' } }] })
}

/**
 * The decision of the saved rules and policies about a member's call. This also works for tools that cannot run yet.
 */
const tried = async (world: World, name: string, given: object) => {
  const call = { tool: name, params: given, labels: [], role: 'member' }
  return (await world.ok('owner', 'POST', `${world.path}/rules/test`, { call })).decision
}

/** A restriction of a tool's policy. */
const restriction = (
  name: string,
  values: Pair,
  effects: Pair,
  toolName: string,
  seen: (world: World) => Promise<unknown>,
): Proofs => {
  const [, key = '', list] = /^(\w+)(\[\])?$/.exec(name) ?? []
  const bodyOf = (value: unknown) => ({ restrictions: { [key]: list === undefined ? value : [value] } })
  return { [`restrictions.${name}`]: proof(values, effects, policy(toolName, bodyOf, seen)) }
}

export const policyProofs: Proofs = {
  tool_name: proof(['Bash', 'Read'], denied, (world, name, way) =>
    policy(name, () => ({ allowed: false }), decision)(world, name, way),
  ),
  ...table(
    {
      allowed: [[false, true], (is) => ({ allowed: is })],
      role: [['member', 'viewer'], (role) => ({ role, allowed: false })],
      'restrictions.read_only': [
        [true, false],
        (read_only) => ({ allowed: true, restrictions: { read_only } }),
      ],
    },
    denied,
    (bodyOf) => policy('Bash', bodyOf, decision),
  ),
  ...restriction(
    'allowed_domains[]',
    ['acme.com', 'acme.org'],
    ['completed', 'run_denied'],
    'mail_send',
    sent,
  ),
  ...restriction('allowed_repos[]', ['acme/*', 'acme/web'], allowed, 'github_comment', (world) =>
    tried(world, 'github_comment', { repo: 'acme/app', number: 1, body: 'b' }),
  ),
  ...restriction('allowed_channels[]', ['#general', '@me'], allowed, 'slack_send_message', (world) =>
    tried(world, 'slack_send_message', { channel: '#general', text: 't' }),
  ),
  ...restriction('max_message_length', [5, 4], ['completed', 'run_denied'], 'mail_send', sent),
  ...restriction('max_response_size_kb', [3, 1], ['completed', 'failed'], 'memory_get', large),
}

export const overrideProofs: Proofs = table(
  {
    tool_name: [['Bash', 'Read'], (tool_name) => ({ tool_name })],
    role: [['member', 'auditor'], (role) => ({ role })],
    allowed: [[false, true], (is) => ({ allowed: is })],
  },
  denied,
  (bodyOf) => async (world, value) => {
    const body = { tool_name: 'Bash', role: 'member', allowed: false, ...bodyOf(value as never) }
    await world.ok('owner', 'POST', `${world.path}/role-policy-overrides`, body)
    return decision(world)
  },
)
