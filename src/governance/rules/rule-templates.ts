import type { LabelRuleBody, RuleBody } from '../../policy/rule.ts'

export type RuleTemplate = {
  readonly id: string
  readonly title: string
  readonly description: string
  /** `service_hook.py install --starter-rules` saves it. */
  readonly starter?: true
} & (
  | { readonly kind: 'rule'; readonly body: RuleBody }
  | { readonly kind: 'label_rule'; readonly body: LabelRuleBody }
)

/** Parts of paths to files that usually contain secrets. */
const secretFiles = [
  '.env',
  '/.ssh',
  '.ssh/',
  '.aws/',
  '.gnupg/',
  '.kube/config',
  '.netrc',
  '.git-credentials',
  '.docker/config.json',
  '.pem',
  'id_rsa',
  'id_ed25519',
]
/** The same in the text of commands. `.env` only after a space, slash or quotation mark, so not in `process.env`. */
const secretWords = [' .env', '/.env', "'.env", '".env', ...secretFiles.slice(1)]

type Starter = Pick<RuleTemplate, 'id' | 'title' | 'description'> & {
  readonly body: Omit<RuleBody, 'verdict' | 'status' | 'applies_to'>
}

const starters = (list: readonly Starter[]): readonly RuleTemplate[] =>
  list.map(({ body: { name, ...body }, ...template }) => ({
    ...template,
    starter: true,
    kind: 'rule',
    body: { name, verdict: 'require_approval', status: 'inactive', ...body, applies_to: ['agents'] },
  }))

/** `service_hook.py install --starter-rules`: in shadow mode for `observe`; `careful` also sets `external_tools`. */
const starterRules = starters([
  {
    id: 'agents-send-company-data',
    title: 'Agents ask before they send company data',
    description: 'Holds what sends data out once the session has read company data.',
    body: {
      name: 'Agents: company data waits before it is sent',
      side_effects: ['egress'],
      labels: { any_of: ['internal', 'confidential', 'pii'] },
    },
  },
  {
    id: 'agents-open-secrets',
    title: 'Agents ask before they open files with secrets',
    description: 'Holds reads and changes of files such as `.env` and `~/.ssh/id_rsa`.',
    body: {
      name: 'Agents: files with secrets wait',
      tools: ['Read', 'Edit', 'MultiEdit', 'Write'],
      params: [{ param: 'file_path', operator: 'contains', value: secretFiles }],
    },
  },
  {
    id: 'agents-name-secrets',
    title: 'Agents ask before a command or a search names files with secrets',
    description: 'Holds commands and searches whose text names files such as `.env` and `~/.ssh/id_rsa`.',
    body: {
      name: 'Agents: commands and searches that name secrets wait',
      tools: ['Bash', 'PowerShell', 'Monitor', 'Grep', 'Glob', 'LS'],
      params: [{ param: '*', operator: 'contains', value: secretWords }],
    },
  },
  {
    id: 'agents-force-push',
    title: 'Agents ask before a forced push',
    description: 'Holds `git push` with `--force`, `-f` or a `+` before a branch.',
    body: {
      name: 'Agents: forced pushes wait',
      tools: ['Bash', 'PowerShell', 'Monitor'],
      params: [
        { param: 'command', operator: 'contains', value: 'push' },
        { param: 'command', operator: 'contains', value: ['--force', ' -f', ' -uf', ' +', " '+", ' "+'] },
      ],
    },
  },
  {
    id: 'agents-unclassed-tools',
    title: 'Agents ask before they give company data to a tool that nobody has classed',
    description:
      'Holds every call of an MCP server’s tool that `external_tools` gives no side effect, once the session has read company data. The tool’s name does not count.',
    body: {
      name: 'Agents: unclassed MCP tools wait',
      // As clients write tools of servers (`mcp__x__get`, `mcp_x_get`, `MCP-x-get`, `x__get`, `x.get`, `x/get`), and
      // tools that give text to a server of the agent's choice, such as `ReadMcpResourceTool`.
      tools: ['*mcp*', '*Mcp*', '*MCP*', '*__*', '*.*', '*/*'],
      classed: false,
      labels: { any_of: ['internal', 'confidential', 'pii'] },
    },
  },
])

/** Inactive, until an organization saves them as rules with another status. */
export const ruleTemplates: readonly RuleTemplate[] = [
  {
    id: 'confidential-stays-inside',
    title: 'Confidential data stays inside',
    description: 'Refuses to deliver anything that carries `confidential` or `pii`.',
    kind: 'rule',
    body: {
      name: 'Confidential data stays inside',
      verdict: 'deny',
      status: 'inactive',
      side_effects: ['egress'],
      labels: { any_of: ['confidential', 'pii'] },
    },
  },
  {
    id: 'internal-mail-to-outsiders',
    title: 'A person looks at internal data before it is mailed outside',
    description: 'Replace `example.com` by your own domains.',
    kind: 'rule',
    body: {
      name: 'Internal data to outsiders needs approval',
      verdict: 'require_approval',
      status: 'inactive',
      tools: ['mail_*'],
      labels: { any_of: ['internal'] },
      params: [{ param: '*', operator: 'domain_not_in', value: ['example.com'] }],
    },
  },
  {
    id: 'untrusted-then-egress',
    title: 'What came from the web does not send',
    description: 'Holds a call that delivers something once both untrusted and internal data are at hand.',
    kind: 'rule',
    body: {
      name: 'Untrusted and internal data together need approval to leave',
      verdict: 'require_approval',
      status: 'inactive',
      side_effects: ['egress'],
      labels: { all_of: ['untrusted', 'internal'] },
    },
  },
  {
    id: 'untrusted-writes',
    title: 'A person looks before untrusted content is written',
    description: 'Holds changes to connected systems that were built from web content.',
    kind: 'rule',
    body: {
      name: 'Writes built from untrusted content need approval',
      verdict: 'require_approval',
      status: 'inactive',
      side_effects: ['write'],
      labels: { any_of: ['untrusted'] },
    },
  },
  {
    id: 'agents-ask-before-sending',
    title: 'Agents ask before they send',
    description: 'Holds every delivery that an external agent wants to make.',
    kind: 'rule',
    body: {
      name: 'Agents ask before they send',
      verdict: 'require_approval',
      status: 'inactive',
      side_effects: ['egress'],
      applies_to: ['agents'],
    },
  },
  {
    id: 'salaries-are-confidential',
    title: 'Files of one folder are confidential',
    description: 'Adds `confidential` to what is read from a folder; replace the path by yours.',
    kind: 'label_rule',
    body: {
      name: 'Salaries are confidential',
      status: 'inactive',
      tools: ['file_read'],
      params: [{ param: 'path', operator: 'startswith', value: 'salaries/' }],
      add_labels: ['confidential'],
    },
  },
  ...starterRules,
]
