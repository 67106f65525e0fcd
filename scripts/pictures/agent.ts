import type { Api } from '../../test/support/client.ts'
import type { StartedStack } from '../../test/support/start-stack.ts'

/* The agent in the pictures. It asks before each call, as the hook of a client does. */

interface Answer {
  readonly decision: string
  readonly approval_id?: string
}

interface Started {
  readonly session: string
  readonly push: string
  readonly edit: string
}

const limits = (upper: string): string => `upper: ${upper}\nlower: 20 mm\nalarm_after: 30 s`

/** Makes an agent session with calls that are allowed, denied and held, and one call that ran without a decision. */
export async function agentAtWork(
  stack: StartedStack,
  { admin }: Readonly<Record<'admin', Api>>,
): Promise<Started> {
  const session_id = '7f3c51d2-9a41-4e0c-b7d5-2f8e6c1a90b3'
  const { agent_key } = stack.bootstrap<{ agent_key: string }>()
  const agent = { name: 'Claude Code', kind: 'claude-code' }
  // Agents use the key `agent_key` of bootstrap.json, not the key of a person.
  const post: Post = async (path, body) => {
    const answer = await fetch(`${stack.baseUrl}/api/v1${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${agent_key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ session_id, ...body }),
    })
    if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`)
    return (await answer.json()) as Answer
  }
  const ask = (tool_name: string, tool_input: object): Promise<Answer> =>
    post('/authorize', { agent, tool_name, tool_input })
  await otherSessions(post)
  await ask('Read', { file_path: 'pump-control/limits.yml' })
  await ask('Bash', { command: 'npm test' })
  await ask('Bash', { command: 'rm -rf build' })
  const edit = await ask('Edit', {
    file_path: 'pump-control/limits.yml',
    old_string: limits('480 mm'),
    new_string: limits('520 mm'),
  })
  const push = await ask('Bash', { command: 'git push origin main' })
  await post('/authorize/observe', { tool_name: 'Write', tool_input: { file_path: 'notes.md' } })
  const found = await admin.good<{ data: { id: string }[] }>(
    'GET',
    `/agent-sessions?session_id=${encodeURIComponent(session_id)}`,
  )
  const [first] = found.data
  if (first === undefined || push.approval_id === undefined || edit.approval_id === undefined)
    throw new Error(`the agent's calls were not held: ${JSON.stringify({ push, edit })}`)
  return { session: first.id, push: push.approval_id, edit: edit.approval_id }
}

type Post = (path: string, body: object) => Promise<Answer>

/** Makes two more sessions: a check by `doctor`, and an earlier session of the same agent. */
async function otherSessions(post: Post): Promise<void> {
  await post('/authorize', {
    session_id: 'doctor-4711-1764111730',
    agent: { name: 'doctor', kind: 'coding_agent' },
    tool_name: 'Glob',
    tool_input: {},
  })
  await post('/authorize', {
    session_id: '1c09be72-5d13-48f6-a3c8-40b9d6e2f715',
    agent: { name: 'Claude Code', kind: 'claude-code' },
    tool_name: 'Bash',
    tool_input: { command: 'npm test' },
  })
}
