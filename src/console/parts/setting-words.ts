import type { AnswerOf } from '../../api/routes/index.ts'

/* What each setting does, in sentences. The page shows them in this order. */

export type Settings = AnswerOf<'GET /organizations/{id}/governance'>
type Name = keyof Settings

/** What a setting can be, and what holds then. The value stands in a form; '' is null. */
type Choice = readonly [value: string, words: string, effect: string]

export interface SettingWords {
  readonly title: string
  /** Without choices, people write a number, or a list of words. */
  readonly choices?: readonly Choice[]
  readonly help?: string
  readonly most?: number
}

const yesNo = (yes: readonly [string, string], no: readonly [string, string]): readonly Choice[] => [
  ['true', ...yes],
  ['false', ...no],
]

const category = (title: string, what: string): SettingWords => ({
  title,
  choices: yesNo(
    ['A person decides first', `A run with a step that ${what} waits for a person before it starts.`],
    ['It starts at once', `A run starts, also if a step ${what}. Rules still decide each call.`],
  ),
})

/** Every setting but the classes of tools, which have a table. */
export const settingSections: readonly (readonly [
  id: string,
  title: string,
  Readonly<Partial<Record<Name, SettingWords>>>,
])[] = [
  [
    'approvals',
    'Approvals',
    {
      approvals_enabled: {
        title: 'Calls that rules hold',
        choices: yesNo(
          ['They wait', 'What a rule holds waits until a person decides.'],
          [
            'They are denied',
            'Approvals are off: what a rule holds is denied at once, and no setting below makes a run wait.',
          ],
        ),
      },
      approval_threshold: {
        title: 'People for each approval',
        most: 20,
        help: 'From 1 to 20. A rule may ask for more people, never for fewer.',
      },
      allow_self_approval: {
        title: 'Approve one’s own calls',
        choices: yesNo(
          ['Allowed', 'Who asked for a call, or wrote the workflow, may approve it too, if they are asked.'],
          ['Not allowed', 'Another person always decides: neither who asked nor who wrote the workflow.'],
        ),
      },
      trust_answers: {
        title: 'Answers to questions of runs',
        choices: yesNo(
          ['Trusted', 'What a person answers carries only the labels of what the question shows.'],
          ['Not trusted', 'What a person answers gets the label untrusted, so rules about it hold.'],
        ),
      },
      loosening: {
        title: 'Less strict changes',
        choices: [
          [
            'free',
            'At once',
            'A change of rules, settings, policies or groups holds as soon as it is saved.',
          ],
          [
            'second_person',
            'A second person decides',
            'A change after which some call would be decided less strictly waits for another person.',
          ],
        ],
      },
    },
  ],
  [
    'runs',
    'Runs that wait before they start',
    {
      approval_required_from: {
        title: 'By risk',
        choices: [
          ['', 'Never', 'The risk of a run does not make it wait.'],
          ['low', 'From low risk', 'Every run waits for a person before it starts.'],
          ['medium', 'From medium risk', 'Runs of medium, high and critical risk wait before they start.'],
          ['high', 'From high risk', 'Runs of high and critical risk wait for a person before they start.'],
          ['critical', 'Critical risk only', 'Runs of critical risk wait for a person before they start.'],
        ],
      },
      require_approval_for_external_comm: category(
        'Writing to people outside',
        'writes to people, such as a mail',
      ),
      require_approval_for_public_writes: category('Writing in public', 'writes where the public can read'),
      require_approval_for_permission_changes: category('Changing permissions', 'changes who may do what'),
      category_flags: {
        title: 'By category',
        help: 'Categories that authors give their workflows, or tools have, such as financial. Separate them by commas or lines. A run of one of them waits for a person before it starts.',
      },
    },
  ],
  [
    'messages',
    'Messages about approvals',
    {
      slack_approval_notifications: {
        title: 'Slack',
        choices: yesNo(
          [
            'On',
            'Who may decide gets a message in Slack, if their account is linked and Slack is connected.',
          ],
          ['Off', 'Nobody gets a message in Slack about an approval.'],
        ),
      },
      mail_approval_notifications: {
        title: 'Mail',
        choices: yesNo(
          ['On', 'Who may decide gets a mail, unless they turned their mails off.'],
          ['Off', 'Nobody gets a mail about an approval.'],
        ),
      },
    },
  ],
  [
    'people',
    'How people sign in',
    {
      require_mfa: {
        title: 'Second factor',
        choices: yesNo(
          ['Required', 'Sessions and keys open the organization only with a second factor.'],
          ['Not required', 'A password or the company’s sign-in is enough.'],
        ),
      },
      require_sso: {
        title: 'Company sign-in',
        choices: yesNo(
          [
            'Required',
            'Only sign-ins with the company’s provider count. Owners keep a way in for emergencies.',
          ],
          ['Not required', 'Passwords count too.'],
        ),
      },
    },
  ],
  [
    'data',
    'Who sees data, and what is kept',
    {
      run_values: {
        title: 'Values of runs',
        choices: [
          [
            'participants',
            'Participants',
            'Who started the run, who is asked, the readers of the workflow, admins and owners see its values.',
          ],
          ['members', 'Members', 'Every member sees the values of every run. Viewers do not.'],
          ['everyone', 'Everybody', 'Everybody in the organization sees the values of every run.'],
        ],
      },
      restricted_labels: {
        title: 'Restricted labels in the memory',
        help: 'Separate them by commas or lines. A remembered value with one of them is read only by who wrote it, by admins and owners, and by runs.',
      },
      keep_decision_params: {
        title: 'What agents wanted to do',
        choices: [
          [
            'all',
            'Kept',
            'The parameters of each decided call stay encrypted for 30 days, so that a backtest decides it again. Those of a held call stay readable until old data is removed.',
          ],
          ['held', 'Kept for held calls', 'Only the parameters of held calls stay.'],
          [
            'none',
            'Deleted',
            'The parameters of a held call are deleted as soon as it is decided. Others are never kept.',
          ],
        ],
      },
    },
  ],
  [
    'tools',
    'Tools',
    {
      default_tool_access: {
        title: 'Tools without a policy',
        choices: [
          ['allow', 'Allowed', 'A tool works unless a policy or an override blocks it.'],
          ['deny', 'Denied', 'A tool works only if a policy or an override allows it.'],
        ],
      },
      default_agent_access: {
        title: 'Calls of agents without a rule',
        choices: [
          ['allow', 'Allowed', 'A call of an agent passes unless a rule or a policy stops it.'],
          [
            'deny',
            'Denied',
            'A call of an agent passes only where a rule with the verdict allow matches it.',
          ],
        ],
      },
    },
  ],
]

export const settingTitles: Readonly<Record<string, string>> = Object.fromEntries(
  settingSections.flatMap(([, , each]) => Object.entries(each).map(([name, { title }]) => [name, title])),
)

/** As the field of the form has it. */
export function fieldOf(value: unknown): string {
  if (value === null) return ''
  if (Array.isArray(value)) return value.join(', ')
  if (typeof value === 'string') return value
  if (typeof value !== 'object') return JSON.stringify(value)
  return Object.entries(value as Record<string, unknown>)
    .flatMap(([name, isOn]) => (isOn === true ? [name] : []))
    .join(', ')
}

/** What the API takes for the text of a field, by what holds now. */
export function valueOf(name: string, text: string, now: unknown): unknown {
  const words = [...new Set(text.split(/[\s,;]+/).filter((each) => each !== ''))]
  if (name === 'category_flags') return Object.fromEntries(words.map((each) => [each, true]))
  if (Array.isArray(now)) return words
  if (typeof now === 'boolean') return text === 'true'
  if (typeof now === 'number') return /^\d{1,4}$/.test(text) ? Number(text) : text
  return text === '' ? null : text
}
