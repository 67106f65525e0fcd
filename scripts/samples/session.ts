import { existsSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import type { Changes } from '../../src/demo/prepare.ts'
import { followRun, type Client, type Person } from '../../src/demo/client.ts'
import { mustHold, type Teller } from '../../src/demo/show.ts'
import { connectStandIn, ownConnection, voteUntilDecided } from '../../src/demo/prepare.ts'
import type { DemoStack } from '../../src/demo/stack.ts'
import type { Services } from './services.ts'

/** The objects that every sample uses. */
export interface Session {
  readonly stack: DemoStack
  readonly client: Client
  readonly tell: Teller
  readonly changes: Changes
  readonly services: Services
  /** This text is a part of the name of every object that a sample saves. */
  readonly tag: string
}

/**
 * The person who starts the runs of the samples. The runs use the connections of this person. Only an admin may connect
 * the emulators, because they are not at the services' own addresses.
 */
export const requester: Person = 'admin'

export interface Run {
  readonly id: string
  readonly status: string
  readonly status_reason: string
  readonly waiting_for: readonly {
    readonly kind: string
    readonly approval_id: string | null
    readonly step_id: string | null
  }[]
  readonly steps: readonly { id: string; status: string; attempts: number; finished_at: string | null }[]
  readonly outputs: Readonly<Record<string, unknown>>
  readonly result: unknown
}
interface Approval {
  readonly tool: string | null
  readonly rule_name: string | null
  readonly labels: readonly string[]
  readonly preview?: {
    readonly title: string
    readonly fields: readonly { readonly name: string; readonly value: string }[]
  }
}
interface Receipt {
  readonly decisions: readonly {
    step_id: string | null
    item_index: number | null
    tool: string
    verdict: string
    rule_name: string | null
    outcome: string | null
  }[]
}

/**
 * The name of the connections to the emulators. If `npm run samples` is interrupted, the next start removes these
 * connections.
 */
export const emulatorName = 'an emulator of the samples'

/** Connects the services for the requester. The connections are removed when the samples have ended. */
export async function connectServices(session: Session): Promise<void> {
  const { services } = session
  const own = await ownConnection(session, requester, emulatorName, replaced)
  if (own !== null)
    throw new Error(
      `the ${requester} of this Countersign has a connection to ${own.integration}, which the samples would replace: ` +
        `revoke it with \`DELETE /connections/${own.id}\`, or set DATA_DIR to an empty folder`,
    )
  for (const [tool, credential] of Object.entries(services.credentials))
    await connectTool(session, tool, credential)
}

/** Integrations to which the samples connect the requester. */
const replaced = ['github', 'slack', 'llm', 'google', 'trello', 'jira', 'mail']

/** Connects the service of a tool for the requester, or for the whole organization. */
export async function connectTool(
  session: Session,
  tool: string,
  credential: object,
  scope: 'personal' | 'organization' = 'personal',
): Promise<void> {
  const { client, changes, tell } = session
  const standIn = { tool, name: emulatorName, credential, scope }
  const { integration, account } = await connectStandIn(client, changes.onUndo, requester, standIn)
  const whose = scope === 'personal' ? '' : ', for the organization'
  tell.line(`connected ${integration} as ${account ?? 'an account without a name'}${whose}`)
}

/** Uploads a file for the requester. The file is deleted when the samples have ended. */
export async function upload(session: Session, file: URL, labels: string): Promise<string> {
  const { stack, changes, client, tell } = session
  const name = basename(file.pathname)
  const form = new FormData()
  form.append('labels', labels)
  form.append('file', new File([readFileSync(file)], name))
  const { base_url, users } = stack.bootstrap
  const answer = await fetch(`${base_url}/api/v1/files`, {
    method: 'POST',
    headers: { authorization: `Bearer ${users[requester].api_key}` },
    body: form,
  })
  if (!answer.ok) throw new Error(`uploading ${name}: ${answer.status} ${await answer.text()}`)
  const made = (await answer.json()) as { id: string; labels: string[] }
  changes.onUndo(() => client.get(requester, 'DELETE', `/files/${made.id}`))
  tell.line(`uploaded ${name}, labels ${made.labels.join(', ')}`)
  return made.id
}

/** Saves a workflow of samples/workflows in Countersign, from JSON or YAML, and returns its id. */
export async function saveWorkflow({ client, stack, tag }: Session, name: string): Promise<string> {
  const file = (type: string) => new URL(`../../samples/workflows/${name}.${type}`, import.meta.url)
  const ownName = `sample ${tag}: ${name}`
  if (existsSync(file('json'))) {
    const definition = JSON.parse(readFileSync(file('json'), 'utf8')) as object
    return (await client.get<{ id: string }>(requester, 'POST', '/workflows', { name: ownName, definition }))
      .id
  }
  const { base_url: base, users } = stack.bootstrap
  const text = readFileSync(file('yaml'), 'utf8')
  const answer = await fetch(`${base}/api/v1/workflows`, {
    method: 'POST',
    headers: { authorization: `Bearer ${users[requester].api_key}`, 'content-type': 'application/yaml' },
    // Several runs of the samples save it again, and a slug is there once.
    body: text.replace(/^name: .*$/m, `name: "${ownName}"`).replace(/^slug: .*\n/m, ''),
  })
  if (!answer.ok) throw new Error(`saving ${name}: ${answer.status} ${await answer.text()}`)
  return ((await answer.json()) as { id: string }).id
}

interface Ended {
  readonly run: Run
  readonly heldSteps: readonly (string | null)[]
  readonly reasons: readonly string[]
  readonly approvedBy: readonly (readonly Person[])[]
}

/** Starts a run of the workflow, and follows it. */
export async function runToEnd(session: Session, workflowId: string, body: object): Promise<Ended> {
  const path = `/workflows/${workflowId}/execute?wait=0`
  const started = await session.client.get<{ execution_id: string }>(requester, 'POST', path, body)
  return followToEnd(session, started.execution_id)
}

/**
 * Follows a run to its end. Shows each waiting approval, and approves it. `answer` answers the questions of the run. The three returned lists have one entry
 * for each wait. `heldSteps` has the step, or null for the whole run. `reasons` has the explanation of the wait.
 * `approvedBy` has the people who approved.
 */
export async function followToEnd(
  { client, changes, tell }: Session,
  id: string,
  answer?: (approvalId: string) => Promise<void>,
): Promise<Ended> {
  // This cancels a run only if the samples are interrupted. Otherwise the run has already ended.
  changes.onUndo(() => client.ask(requester, 'POST', `/runs/${id}/cancel`, {}))
  const heldSteps: (string | null)[] = []
  const reasons: string[] = []
  const approvedBy: Person[][] = []
  const run = await followRun(
    () => client.get<Run>(requester, 'GET', `/runs/${id}`),
    async ({ kind, approval_id, step_id }, { status_reason }) => {
      mustHold(approval_id !== null, `an approval can decide it (${status_reason})`)
      if (kind === 'ask' && answer !== undefined) return answer(approval_id)
      heldSteps.push(step_id)
      reasons.push(status_reason)
      tell.line(status_reason)
      await showHeld(client, tell, approval_id)
      const people = await voteUntilDecided(client, approval_id)
      approvedBy.push(people)
      tell.line(`approved by ${people.join(' and ')}`)
    },
  )
  await showVerdicts(client, tell, run)
  mustHold(run.status === 'completed', `the run completed (it is ${run.status}: ${run.status_reason})`)
  return { run, heldSteps, reasons, approvedBy }
}

async function showHeld(client: Client, tell: Teller, approvalId: string): Promise<void> {
  const { preview, labels } = await client.get<Approval>('approver', 'GET', `/approvals/${approvalId}`)
  if (preview === undefined) return
  tell.line(`the approver sees: ${preview.title}, labels ${labels.join(', ')}`)
  for (const { name, value } of preview.fields)
    for (const [index, line] of value.split('\n').entries())
      tell.line(`  ${index === 0 ? `${name}: ` : '  '}${line}`)
}

async function showVerdicts(client: Client, tell: Teller, { id }: Run): Promise<void> {
  const { decisions } = await client.get<Receipt>(requester, 'GET', `/runs/${id}/authorization`)
  for (const { step_id, item_index, tool, verdict, rule_name, outcome } of decisions) {
    const step = item_index === null ? step_id : `${step_id}[${item_index}]`
    const rule = rule_name === null ? 'no rule matched' : `rule ${rule_name}`
    tell.line(`${step}: ${tool} ${verdict}, ${rule}, ${outcome ?? 'no outcome'}`)
  }
}
