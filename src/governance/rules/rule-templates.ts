import type { LabelRuleBody, RuleBody } from '../../policy/rule.ts'

export type RuleTemplate = {
  readonly id: string
  readonly title: string
  readonly description: string
  /** Whether `service_hook.py install --starter-rules` saves this rule. */
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
/**
 * These strings find the files of `secretFiles` in the text of commands. `.env` matches only after a space, a slash or
 * a quotation mark, so that `process.env` does not match.
 */
const secretWords = [' .env', '/.env', "'.env", '".env', ...secretFiles.slice(1)]

/**
 * `service_hook.py install --starter-rules` saves these rules for agents. With the choice `observe` the rules are in
 * shadow mode, and with `careful` they are active. With `careful` it also changes the setting `external_tools`.
 */
const starterRules: readonly RuleTemplate[] = [
  {
    id: 'agents-send-company-data',
    title: 'Agents ask before they send company data',
    description: 'Holds what sends data out once the session has read company data.',
    starter: true,
    kind: 'rule',
    body: {
      name: 'Agents: company data waits before it is sent',
      verdict: 'require_approval',
      status: 'inactive',
      side_effects: ['egress'],
      labels: { any_of: ['internal', 'confidential', 'pii'] },
      applies_to: ['agents'],
    },
  },
  {
    id: 'agents-open-secrets',
    title: 'Agents ask before they open files with secrets',
    description: 'Holds reads and changes of files such as `.env` and `~/.ssh/id_rsa`.',
    starter: true,
    kind: 'rule',
    body: {
      name: 'Agents: files with secrets wait',
      verdict: 'require_approval',
      status: 'inactive',
      tools: ['Read', 'Edit', 'MultiEdit', 'Write'],
      params: [{ param: 'file_path', operator: 'contains', value: secretFiles }],
      applies_to: ['agents'],
    },
  },
  {
    id: 'agents-name-secrets',
    title: 'Agents ask before a command or a search names files with secrets',
    description: 'Holds commands and searches whose text names files such as `.env` and `~/.ssh/id_rsa`.',
    starter: true,
    kind: 'rule',
    body: {
      name: 'Agents: commands and searches that name secrets wait',
      verdict: 'require_approval',
      status: 'inactive',
      tools: ['Bash', 'PowerShell', 'Monitor', 'Grep', 'Glob', 'LS'],
      params: [{ param: '*', operator: 'contains', value: secretWords }],
      applies_to: ['agents'],
    },
  },
  {
    id: 'agents-force-push',
    title: 'Agents ask before a forced push',
    description: 'Holds `git push` with `--force`, `-f` or a `+` before a branch.',
    starter: true,
    kind: 'rule',
    body: {
      name: 'Agents: forced pushes wait',
      verdict: 'require_approval',
      status: 'inactive',
      tools: ['Bash', 'PowerShell', 'Monitor'],
      params: [
        { param: 'command', operator: 'contains', value: 'push' },
        { param: 'command', operator: 'contains', value: ['--force', ' -f', ' -uf', ' +', " '+", ' "+'] },
      ],
      applies_to: ['agents'],
    },
  },
  {
    id: 'agents-unclassed-tools',
    title: 'Agents ask before they give company data to a tool that nobody has classed',
    description:
      'Holds every call of an MCP server’s tool that `external_tools` gives no side effect, once the session has read company data. The tool’s name does not count.',
    starter: true,
    kind: 'rule',
    body: {
      name: 'Agents: unclassed MCP tools wait',
      verdict: 'require_approval',
      status: 'inactive',
      // How clients write the tools of servers: `mcp__x__get`, `mcp_x_get`, `MCP-x-get`, `x__get`, `x.get`, `x/get`, and
      // tools that give text to a server of the agent's choice, such as `ReadMcpResourceTool`.
      tools: ['*mcp*', '*Mcp*', '*MCP*', '*__*', '*.*', '*/*'],
      classed: false,
      labels: { any_of: ['internal', 'confidential', 'pii'] },
      applies_to: ['agents'],
    },
  },
]

/**
 * All templates are inactive. A template has no effect until an organization saves it as a rule with another status.
 */
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
