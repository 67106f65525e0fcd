import { connectStandIn, ownConnection, voteUntilDecided, type Changes } from './prepare.ts'
import { repo, startCodeHost, type CodeHost } from './code-host.ts'
import { followRun, type Followed, type Person } from './client.ts'
import { mustHold, type Stage } from './show.ts'

interface Run extends Followed {
  readonly steps: readonly { readonly attempts: number }[]
  readonly outputs: Readonly<Record<string, { readonly number?: number; readonly url?: string }>>
}
interface Receipt {
  readonly decisions: readonly { readonly outcome: string | null }[]
}

const name = 'the stand-in of the demo'
/** People who may connect a server on this machine, which is not GitHub's own. */
const people: readonly Person[] = ['admin', 'approver', 'owner']

/** A run that has created an issue, although the code host's first answer was lost. */
interface Crashed {
  readonly person: Person
  readonly id: string
  readonly run: Run
  readonly host: CodeHost
}

/**
 * Runs a workflow that creates an issue on a stand-in of GitHub, whose answer never reaches the worker: the demo kills
 * it first. In a stack that ran before, only the connection breaks. Returns null, and prints why, if all of these
 * people have their own connection to GitHub.
 */
export async function createInCrash(stage: Stage, { onUndo }: Changes): Promise<Crashed | null> {
  const { stack, client, tell, atEnd } = stage
  const person = await personWithout(stage)
  if (person === null) {
    tell.line('not shown: every admin and owner here has a connection to GitHub of their own')
    return null
  }
  const host = await startCodeHost(() => {
    tell.line('the code host has created the issue, and its answer is on the way ...')
    stack.killWorker?.()
    tell.line(
      stack.killWorker === null
        ? '... when the connection breaks (this Countersign ran before, so its worker is not killed)'
        : '... when the worker is killed with SIGKILL',
    )
  })
  atEnd('the stand-in of GitHub', host.close)
  const credential = { token: 'any', base_url: host.url }
  await connectStandIn(client, onUndo, person, {
    tool: 'github_create_issue',
    name,
    credential,
    scope: 'personal',
  })
  tell.line(`${person} is connected to a stand-in of GitHub on this machine`)
  const workflow = await client.get<{ id: string }>(person, 'POST', '/workflows', {
    name: 'demo: report a fault',
    definition: {
      steps: [
        {
          id: 'report',
          tool: 'github_create_issue',
          params: { repo, title: 'The pump does not stop at the upper float', body: 'Seen on {{today}}.' },
        },
      ],
    },
  })
  const path = `/workflows/${workflow.id}/execute?wait=0`
  const { execution_id: id } = await client.get<{ execution_id: string }>(person, 'POST', path, {})
  onUndo(() => client.ask(person, 'POST', `/runs/${id}/cancel`, {}))
  const run = await followRun(
    () => client.get<Run>(person, 'GET', `/runs/${id}`),
    async ({ approval_id }, { status_reason }) => {
      mustHold(approval_id !== null, `an approval can decide it (${status_reason})`)
      await voteUntilDecided(client, approval_id)
    },
  )
  mustHold(run.status === 'completed', `the run completed (it is ${run.status}: ${run.status_reason})`)
  return { person, id, run, host }
}

/** The worker looked for the issue, found it, and did not create it again. */
export async function showFound({ client, tell }: Stage, { person, id, run, host }: Crashed): Promise<void> {
  mustHold(host.looks > 0, 'the issue was looked for')
  const [made, ...more] = host.issues
  mustHold(
    made !== undefined && more.length === 0,
    `the code host has one issue (it has ${host.issues.length})`,
  )
  mustHold(run.outputs['report']?.url === made.html_url, 'the run reports the issue that was found')
  const { decisions } = await client.get<Receipt>(person, 'GET', `/runs/${id}/authorization`)
  const outcomes = decisions.map(({ outcome }) => outcome ?? 'no outcome').join(', then ')
  tell.line(`sent once, looked for, found: #${made.number} ${made.title}`)
  tell.line(`by the hidden marker in its text: ${/<!--.*?-->/s.exec(made.body)?.[0] ?? made.body}`)
  tell.line(`the receipt says: ${outcomes}`)
}

/** The demo must not replace a person's own connection to GitHub. Returns null if everybody has one. */
async function personWithout(stage: Stage): Promise<Person | null> {
  for (const person of people)
    if ((await ownConnection(stage, person, name, ['github'])) === null) return person
  return null
}
