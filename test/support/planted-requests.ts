import type { CrashHome } from './chaos.ts'

type Save = (steps: object[]) => Promise<string>

/**
 * Sends requests of many kinds. Every text in the requests that Temporal could get contains `secret`. A rule must
 * require an approval for `mail_send`. The function `workflow` saves a workflow with these steps and an input `text`,
 * and returns the id of the workflow. Returns the id of a run whose own approval was rejected.
 */
export async function sendPlanted(home: CrashHome, secret: string, workflow: Save): Promise<string> {
  await runWithFile(home, secret, workflow)
  await workAsAgent(home, secret)
  return holdAndEnd(home, secret, workflow)
}

/**
 * Runs a workflow that uses an uploaded file, a list, and a file that does not exist. Then previews the workflow, saves
 * a memory value, and changes the workflow.
 */
async function runWithFile({ member, stack }: CrashHome, secret: string, workflow: Save): Promise<void> {
  const form = new FormData()
  form.append('file', new Blob([`text ${secret}`]), `${secret}.txt`)
  form.append('labels', 'pii')
  const uploading = await fetch(`${stack.baseUrl}/files`, {
    method: 'POST',
    headers: { authorization: `Bearer ${member.bootstrap.users.member.api_key}` },
    body: form,
  })
  if (uploading.status !== 201) throw new Error(`the file was not taken: ${uploading.status}`)
  const file = (await uploading.json()) as { id: string }
  const keep = { id: 'keep', tool: 'memory_set', params: { key: 'file', value: '{{input.uploaded_files}}' } }
  const each = {
    id: 'each',
    tool: 'memory_set',
    params: { key: 'item', value: '{{item}}' },
    for_each: [secret, '{{input.text}}'],
  }
  const lost = { id: 'lost', tool: 'file_read', params: { path: '{{input.text}}.md' }, on_error: 'continue' }
  const id = await workflow([keep, each, lost])
  const path = `/workflows/${id}/execute?wait=0`
  const body = {
    inputs: { text: secret },
    files: [file.id],
    input_labels: { text: ['pii'] },
    time_zone: 'Europe/Vienna',
  }
  const { execution_id: runId } = await member.good<{ execution_id: string }>('POST', path, body)
  await member.untilStatus(runId, 'completed')
  await member.call('POST', `/workflows/${id}/authorization-preview`, { inputs: { text: secret } })
  await member.good('PUT', '/memory/note', { value: secret, labels: ['pii'] })
  const { definition } = await member.good<{ definition: object }>('GET', `/workflows/${id}`)
  await member.good('PUT', `/workflows/${id}`, {
    description: `again ${secret}`,
    definition,
    message: secret,
  })
}

/**
 * Starts three runs that must send a mail, and ends them before the mail is sent. The first run is rejected as a whole.
 * A freeze denies the mail of the second run. The third run is cancelled. Returns the id of the first run.
 */
async function holdAndEnd(
  { owner, approver, member }: CrashHome,
  secret: string,
  workflow: Save,
): Promise<string> {
  const { organization_id: organization } = member.bootstrap
  const mail = {
    id: 'send',
    tool: 'mail_send',
    params: { to: 'ana@acme.test', subject: '{{input.text}}', text: '{{input.text}}' },
  }
  await owner.settings({ approval_required_from: 'low' })
  const gated = await member.execute(await workflow([mail]), { text: secret })
  await approver.good('POST', `/approvals/${await approver.untilHeld(gated, 'run')}/reject`, {
    comment: secret,
  })
  await member.untilStatus(gated, 'rejected')
  await owner.settings({ approval_required_from: null })
  const frozen = await member.execute(await workflow([mail]), { text: secret })
  const held = await approver.untilHeld(frozen, 'step')
  await owner.good('POST', `/organizations/${organization}/freeze`, { reason: secret })
  await approver.decide(held, 'approve')
  await member.untilStatus(frozen, 'denied')
  await owner.good('POST', `/organizations/${organization}/unfreeze`, { reason: secret })
  const cancelled = await member.execute(await workflow([mail]), { text: secret })
  await approver.untilHeld(cancelled, 'step')
  await member.good('POST', `/runs/${cancelled}/cancel`, { reason: secret })
  await member.untilStatus(cancelled, 'cancelled')
  return gated
}

/** Asks about a call and reports the call, as an agent does. Also invites a person, and creates an API key. */
async function workAsAgent({ admin, member }: CrashHome, secret: string): Promise<void> {
  const { organization_id: organization } = member.bootstrap
  const agent = { session_id: secret, tool_name: 'Bash', tool_use_id: `${secret}2` }
  await member.good('POST', '/authorize', {
    agent: { name: secret, kind: 'hook' },
    ...agent,
    tool_input: { command: `echo ${secret}` },
  })
  await member.call('POST', '/authorize/observe', { ...agent, status: 'completed', tool_output: secret })
  await admin.call('POST', `/organizations/${organization}/invitations`, {
    email: `${secret}@acme.test`,
    role: 'viewer',
  })
  await member.call('POST', '/api-keys', { name: secret, scopes: ['run:read'] })
}
