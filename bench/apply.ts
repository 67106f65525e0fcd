import { Api } from '../test/support/client.ts'
import { stackHome, startStack } from '../test/support/start-stack.ts'
import { count, machine, median, say } from './support/report.ts'

const [rules, workflows, rounds] = [1_000, 100, 10]
/** Milliseconds: so long may an application take that changes nothing, and one that changes a rule. */
const goals = { nothing: 2_000, one: 300 }

/** `npm run bench apply`: an organization's files, applied over HTTP: all new, unchanged, one rule changed, all deleted. */
export async function run(): Promise<void> {
  say(`apply: ${machine()}`)
  const home = stackHome()
  const started = await startStack({ dataDir: home.dataDir, env: { LOG_LEVEL: 'error' } })
  try {
    const { base_url: base, organization_id: id, users } = new Api(home.dataDir, 'owner').bootstrap
    const apply = async (objects: readonly object[], more: object = {}): Promise<number> => {
      const body = JSON.stringify({ objects, repository: 'https://github.com/acme/rules', ...more })
      const began = performance.now()
      const answer = await fetch(`${base}/api/v1/organizations/${id}/apply`, {
        method: 'POST',
        headers: { authorization: `Bearer ${users.owner.api_key}`, 'content-type': 'application/json' },
        body,
      })
      const text = await answer.text()
      if (!answer.ok) throw new Error(text.slice(0, 1_000))
      return performance.now() - began
    }
    const files = [
      ...Array.from({ length: rules }, ruleFile),
      ...Array.from({ length: workflows }, workflowFile),
    ]
    say(
      `  ${count(rules)} rules and ${count(workflows)} workflows, ${count(JSON.stringify(files).length)} characters`,
    )
    say(`  a dry run of all: ${Math.round(await apply(files, { dry_run: true }))} ms`)
    say(`  all new: ${Math.round(await apply(files))} ms`)
    const nothing = await times(() => apply(files))
    say(`  nothing changed: ${told(nothing)}; goal ${count(goals.nothing)} ms`)
    let round = 0
    const one = await times(() => {
      round += 1
      const verdict = round % 2 === 0 ? 'deny' : 'require_approval'
      return apply(files.map((file, at) => (at === rules / 2 ? { ...file, verdict } : file)))
    })
    say(`  one rule changed: ${told(one)}; goal ${count(goals.one)} ms`)
    say(`  all deleted: ${Math.round(await apply([]))} ms`)
  } finally {
    await started.stop()
    await home.remove()
  }
}

async function times(work: () => Promise<number>): Promise<readonly number[]> {
  const found: number[] = []
  for (let round = 0; round < rounds; round += 1) found.push(await work())
  return found
}

const told = (found: readonly number[]): string =>
  `median ${Math.round(median(found))} ms, longest ${Math.round(Math.max(...found))} ms`

const ruleFile = (_: unknown, at: number) => ({
  kind: 'rule',
  path: `rules/${at}.yaml`,
  name: `Rule ${at}`,
  verdict: at % 3 === 0 ? 'deny' : 'require_approval',
  tools: ['mail_send', `mcp__service__tool_${at}`],
  labels: { any_of: ['internal', `label_${at % 50}`] },
  params: [{ param: 'to', operator: 'domain_in', value: [`a${at}.example`, `b${at}.example`] }],
})

const workflowFile = (_: unknown, at: number) => ({
  kind: 'workflow',
  path: `workflows/${at}.yaml`,
  slug: `workflow-${at}`,
  name: `Workflow ${at}`,
  definition: {
    inputs: { to: { type: 'string', required: true } },
    steps: Array.from({ length: 10 }, (__, step) => ({
      id: `step_${step}`,
      tool: 'mail_send',
      params: {
        to: '{{input.to}}',
        subject: `Part ${step}`,
        text: 'The text of this part of the report. '.repeat(5),
      },
    })),
  },
})
