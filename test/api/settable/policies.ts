import { mail, statusOfRun } from './governance.ts'
import { proof, type Proof, type Proofs, type World } from './world.ts'

/* Tool policies and their exceptions for roles. */

/** Saves a policy with a method of its routes, and returns the result of a run or of an agent's call. */
const policy =
  (
    tool: string,
    bodyOf: (value: never) => object,
    seen: (world: World) => Promise<unknown>,
  ): Proof['observe'] =>
  async (world, value, way) => {
    const all = `${world.path}/tool-policies`
    const { role, ...body }: { role?: string } = bodyOf(value as never)
    const whose = role === undefined ? {} : { role }
    if (way === 'POST') await world.ok('owner', 'POST', all, { tool_name: tool, ...body, ...whose })
    else {
      await world.ok('owner', 'POST', all, { tool_name: tool, allowed: true, ...whose })
      await world.ok('owner', 'PATCH', `${all}/${tool}`, { ...body, ...whose })
    }
    return seen(world)
  }
const decision = async (world: World) => (await world.ask('Bash', { command: 'ls' })).decision
const ofRun = (definition: object) => (world: World) => statusOfRun(world, definition)
const large = async (world: World) => {
  await world.ok('member', 'PUT', '/memory/large', { value: 'x'.repeat(2_000) })
  return statusOfRun(world, { steps: [{ id: 's', tool: 'memory_get', params: { key: 'large' } }] })
}
const limit = (restrictions: object) => ({ restrictions })

/**
 * The decision of the saved rules and policies about a member's call. This also works for tools that cannot run yet.
 */
const tried = async (world: World, tool: string, params: object) => {
  const call = { tool, params, labels: [], role: 'member' }
  return (await world.ok('owner', 'POST', `${world.path}/rules/test`, { call })).decision
}

const override =
  (bodyOf: (value: never) => object): Proof['observe'] =>
  async (world, value) => {
    const body = { tool_name: 'Bash', role: 'member', allowed: false, ...bodyOf(value as never) }
    await world.ok('owner', 'POST', `${world.path}/role-policy-overrides`, body)
    return decision(world)
  }

export const overrideProofs: Proofs = {
  tool_name: proof(
    ['Bash', 'Read'],
    ['deny', 'allow'],
    override((tool_name) => ({ tool_name })),
  ),
  role: proof(
    ['member', 'auditor'],
    ['deny', 'allow'],
    override((role) => ({ role })),
  ),
  allowed: proof(
    [false, true],
    ['deny', 'allow'],
    override((allowed) => ({ allowed })),
  ),
}

export const policyProofs: Proofs = {
  tool_name: proof(['Bash', 'Read'], ['deny', 'allow'], (world, tool, way) =>
    policy(tool, () => ({ allowed: false }), decision)(world, tool, way),
  ),
  allowed: proof(
    [true, false],
    ['allow', 'deny'],
    policy('Bash', (allowed) => ({ allowed }), decision),
  ),
  role: proof(
    ['member', 'viewer'],
    ['deny', 'allow'],
    policy('Bash', (role) => ({ role, allowed: false }), decision),
  ),
  'restrictions.read_only': proof(
    [true, false],
    ['deny', 'allow'],
    policy('Bash', (read_only) => ({ allowed: true, ...limit({ read_only }) }), decision),
  ),
  'restrictions.allowed_domains[]': proof(
    ['acme.com', 'acme.org'],
    ['completed', 'run_denied'],
    policy('mail_send', (domain) => limit({ allowed_domains: [domain] }), ofRun(mail)),
  ),
  'restrictions.allowed_repos[]': proof(
    ['acme/*', 'acme/web'],
    ['allow', 'deny'],
    policy(
      'github_comment',
      (repo) => limit({ allowed_repos: [repo] }),
      (world) => tried(world, 'github_comment', { repo: 'acme/app', number: 1, body: 'b' }),
    ),
  ),
  'restrictions.allowed_channels[]': proof(
    ['#general', '@me'],
    ['allow', 'deny'],
    policy(
      'slack_send_message',
      (channel) => limit({ allowed_channels: [channel] }),
      (world) => tried(world, 'slack_send_message', { channel: '#general', text: 't' }),
    ),
  ),
  'restrictions.max_message_length': proof(
    [5, 4],
    ['completed', 'run_denied'],
    policy('mail_send', (most) => limit({ max_message_length: most }), ofRun(mail)),
  ),
  'restrictions.max_response_size_kb': proof(
    [3, 1],
    ['completed', 'failed'],
    policy('memory_get', (most) => limit({ max_response_size_kb: most }), large),
  ),
}
