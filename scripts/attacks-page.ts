import { readFileSync } from 'node:fs'
import { format, resolveConfig } from 'prettier'
import { attackRuns } from '../test/clients/attacks/all.ts'
import type { Attack, AttackRun } from '../test/clients/attacks/attack.ts'

export const attacksPath = new URL('../docs/agents-reference.md', import.meta.url)

const clients = {
  claude: ['Claude Code', '@anthropic-ai/claude-code'],
  codex: ['Codex', '@openai/codex'],
  gemini: ['Gemini CLI', '@google/gemini-cli'],
  copilot: ['Copilot CLI', '@github/copilot'],
} as const
const installations = { managed: '`--managed`', user: 'of a user', project: 'of a project' }

const versions = (
  JSON.parse(readFileSync(new URL('../test/clients/pins/package.json', import.meta.url), 'utf8')) as {
    dependencies: Record<string, string>
  }
).dependencies

const cell = (text: string): string => text.replaceAll('|', '\\|')

function row({ installation }: AttackRun, { attack, expected }: Attack): string {
  const result = expected === 'holds' ? 'blocked' : `**runs.** ${expected.why} ${expected.helps}`
  return `| ${[installations[installation], attack, result].map(cell).join(' | ')} |`
}

function table(client: keyof typeof clients): string {
  const [name, program] = clients[client]
  const rows = attackRuns
    .filter((run) => run.client === client)
    .flatMap((run) => run.attacks.map((attack) => row(run, attack)))
  const head = ['| Installation | Somebody tries | A denied call is |', '| --- | --- | --- |']
  return [`## ${name} ${versions[program]}`, '', ...head, ...rows].join('\n')
}

const intro = `# Ways around the hook

<!-- Written by \`npm run openapi\` from the tests in test/clients/attacks (scripts/attacks-page.ts). -->

Each row is a test with the real client. Somebody tries to get around the hook, and then the model makes a call that a rule
denies. \`blocked\` means that the call did not run. Otherwise the row says why it runs and what an administrator can do.

\`--managed\` is [an installation for everybody](agents.md#for-everybody-on-a-machine). An installation of a user protects against
accidents, not against an agent or a repository that wants to get around it. A project's installation has the same entries in the
project's own settings. \`doctor\` says \`protected\` on no machine where one of these tests gets a denied call to run.
`

/** docs/agents-reference.md. */
export async function attacksPage(): Promise<string> {
  const tables = (Object.keys(clients) as (keyof typeof clients)[]).map(table)
  const text = [intro, ...tables].join('\n\n')
  return format(text, { ...(await resolveConfig(attacksPath)), parser: 'markdown' })
}
