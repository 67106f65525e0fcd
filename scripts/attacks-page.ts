import { format, resolveConfig } from 'prettier'
import { attackRuns } from '../test/clients/attacks/all.ts'
import type { Attack, AttackRun } from '../test/clients/attacks/attack.ts'
import { versionOf } from '../test/clients/install.ts'

export const attacksPath = new URL('../docs/agents-reference.md', import.meta.url)

const clients = {
  claude: 'Claude Code',
  codex: 'Codex',
  gemini: 'Gemini CLI',
  copilot: 'Copilot CLI',
  opencode: 'opencode',
} as const
const installations = { managed: '`--managed`', user: 'of a user', project: 'of a project' }

const cell = (text: string): string => text.replaceAll('|', '\\|')

function row({ installation, doctor }: AttackRun, { attack, expected }: Attack): string {
  const result = expected === 'holds' ? 'blocked' : `**runs.** ${expected.why} ${expected.helps}`
  const verdict = doctor === undefined ? '' : `\`${doctor}\``
  return `| ${[installations[installation], attack, result, verdict].map(cell).join(' | ')} |`
}

function table(client: keyof typeof clients): string {
  const rows = attackRuns
    .filter((run) => run.client === client)
    .flatMap((run) => run.attacks.map((attack) => row(run, attack)))
  const head = [
    '| Installation | Somebody tries | A denied call is | `doctor` says |',
    '| --- | --- | --- | --- |',
  ]
  return [`## ${clients[client]} ${versionOf(client)}`, '', ...head, ...rows].join('\n')
}

const intro = `# Ways around the hook

<!-- Written by \`npm run openapi\` from the tests in test/clients/attacks (scripts/attacks-page.ts). -->

Each row is a test with the real client. Somebody tries to get around the hook, and then the model makes a call that a rule
denies. \`blocked\` means that the call did not run. Otherwise the row says why it runs and what an administrator can do. In some rows
no call is made: a repository names a program, and the client starts it by itself.

\`--managed\` is [an installation for everybody](agents.md#for-everybody-on-a-machine). An installation of a user protects against
accidents, not against an agent or a repository that wants to get around it. A project's installation has the same entries in the
project's own settings, written by hand.

The last column is what \`doctor\` says in the same folder and environment, if the test asks it. A row with **runs** and \`works\` is a
way that \`doctor\` cannot see from its folder. So \`doctor\` does not say \`protected\` of a client with such a row. Today every client
has one.
`

/** Returns the text of docs/agents-reference.md. */
export async function attacksPage(): Promise<string> {
  const tables = (Object.keys(clients) as (keyof typeof clients)[]).map(table)
  const text = [intro, ...tables].join('\n\n')
  return format(text, { ...(await resolveConfig(attacksPath)), parser: 'markdown' })
}
