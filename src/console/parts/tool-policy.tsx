import type { AnswerOf } from '../../api/routes/index.ts'
import { toolPath } from '../../contract/pages.ts'
import { limitNames, type LimitName, type Restrictions } from '../../policy/tool-limits.ts'
import { quote, list } from '../../policy/text.ts'
import type { Form, PersonsVisit, Problem } from '../visit.ts'
import { Seen, Confirm, Field, Select, type Filled } from './form.tsx'
import { OnceField, PostForm } from './layout.tsx'
import { actions, Table } from './list.tsx'
import { FromFile } from './managed.tsx'
import { Badge } from './state.tsx'
import { Sentence, Words } from './words.tsx'

/* Who may call a tool, and with what: the policies of the organization, of roles and of groups, and the overrides. */

export type Policy = AnswerOf<'GET /organizations/{id}/tool-policies'>['data'][number]
export type Override = AnswerOf<'GET /organizations/{id}/role-policy-overrides'>['data'][number]

export const roles = ['viewer', 'member', 'admin', 'owner'] as const

const many = { viewer: 'Viewers', member: 'Members', admin: 'Admins', owner: 'Owners' } as const

/** null is the organization. */
export const whoseWords = (role: string | null): string =>
  role === null
    ? 'Everybody in the organization'
    : Object.hasOwn(many, role)
      ? many[role as keyof typeof many]
      : `The group ${role}`

const services: Readonly<Record<string, string>> = {
  github: 'GitHub',
  google: 'Google',
  jira: 'Jira',
  llm: 'Language model',
  mail: 'Mail',
  search: 'Web search',
  slack: 'Slack',
  trello: 'Trello',
}

export const serviceWords = ({ service }: { readonly service: string | null }): string =>
  service === null ? 'Built in' : (services[service] ?? service)

interface LimitWords {
  readonly label: string
  readonly help: string
  readonly kind: 'flag' | 'list' | 'number'
}

const limitWords: Readonly<Record<LimitName, LimitWords>> = {
  read_only: {
    label: 'Only read',
    help: 'Calls that change something or send data are denied.',
    kind: 'flag',
  },
  allowed_domains: {
    label: 'Domains',
    help: 'Everybody who gets it is in one of these domains, or below it. One in each line, such as larkspur.example.',
    kind: 'list',
  },
  allowed_repos: {
    label: 'Repositories',
    help: 'The call names only these. One in each line: owner/name, or owner/* for all of an owner.',
    kind: 'list',
  },
  allowed_channels: {
    label: 'Channels',
    help: 'One in each line, as calls name it: #name, an id, or @me.',
    kind: 'list',
  },
  max_message_length: {
    label: 'Characters in a message',
    help: 'Each text of the message has at most so many.',
    kind: 'number',
  },
  max_response_size_kb: {
    label: 'KiB in an answer',
    help: 'A call whose answer is larger fails, and nothing is kept.',
    kind: 'number',
  },
}

export const policyLabels: Readonly<Record<string, string>> = {
  of: 'For whom',
  does: 'What it does',
  ...Object.fromEntries(limitNames.map((name) => [name, limitWords[name].label])),
}

/** Each limit as a clause: "only the repositories `acme/app`". */
export function limitsInWords(given: Restrictions): string[] {
  const names = (values: readonly string[]) => list(values.map(quote), 'and', 20)
  return [
    given.read_only === true ? 'only to read' : null,
    given.allowed_domains && `only to the domains ${names(given.allowed_domains)}`,
    given.allowed_repos && `only with the repositories ${names(given.allowed_repos)}`,
    given.allowed_channels && `only in the channels ${names(given.allowed_channels)}`,
    given.max_message_length &&
      `with at most ${given.max_message_length.toLocaleString('en')} characters in a message`,
    given.max_response_size_kb &&
      `with answers of at most ${given.max_response_size_kb.toLocaleString('en')} KiB`,
  ].filter((each) => typeof each === 'string')
}

export const Limited = ({ words }: { words: readonly string[] }) =>
  words.length === 0 ? (
    <span class="quiet">–</span>
  ) : (
    <ul>
      {words.map((each) => (
        <li>
          <Sentence text={each} />
        </li>
      ))}
    </ul>
  )

const says = (allowed: boolean | null) =>
  allowed === null ? (
    <Badge tone="warn" word="Limits it" />
  ) : allowed ? (
    <Badge tone="good" word="Allows it" />
  ) : (
    <Badge tone="bad" word="Blocks it" />
  )

/** The policies and overrides that name the tool. */
export function Policies(props: {
  readonly tool: string
  readonly policies: readonly Policy[]
  readonly overrides: readonly Override[]
  readonly visit: PersonsVisit
  readonly mayChange: boolean
}) {
  const { tool, policies, overrides, visit, mayChange } = props
  const acts = (kind: 'policy' | 'override', role: string | null) => (
    <div class="links">
      {kind === 'policy' ? (
        <a class="button" href={`${toolPath(tool)}?of=${role ?? ''}#change`}>
          Change<span class="unseen">{` the policy for: ${whoseWords(role)}`}</span>
        </a>
      ) : null}
      <Confirm
        action={toolPath(tool)}
        token={visit.token}
        value={`remove-${kind}`}
        open="Remove …"
        explanation="From the next decision on, only the other policies and the rules decide."
        sure={`Remove the ${kind} for: ${whoseWords(role)}`}
      >
        <input type="hidden" name="of" value={role ?? ''} />
      </Confirm>
    </div>
  )
  const row = (each: Policy | Override, kind: 'policy' | 'override') => [
    <>
      <Words text={whoseWords(each.role)} />
      <FromFile managed={each.managed_by} />
    </>,
    says(each.allowed),
    'restrictions' in each ? (
      <Limited words={limitsInWords(each.restrictions)} />
    ) : (
      <span class="quiet">{`an override, for ${each.members} now`}</span>
    ),
    ...(mayChange ? [each.managed_by === null ? acts(kind, each.role) : 'the file changes it'] : []),
  ]
  return (
    <Table
      label="Policies"
      head={['For whom', 'What it does', 'Limits', ...(mayChange ? [actions] : [])]}
      rows={[
        ...policies.map((each) => row(each, 'policy')),
        ...overrides.map((each) => row(each, 'override')),
      ]}
    />
  )
}

const deeds = [
  ['limit', 'Only limits it'],
  ['allow', 'Allows it, with the limits below'],
  ['block', 'Blocks it: the limits do not matter'],
] as const

/** What the form of a policy was made from. */
export const policySeen = (of: string, now: Pick<Policy, 'allowed' | 'restrictions'> | undefined) =>
  now === undefined ? null : [of, now.allowed, now.restrictions]

/** The form of the policy of everybody, or of those whom `?of=` names. */
export function PolicyForm(props: {
  readonly tool: string
  /** Those that the tool takes. */
  readonly limits: readonly LimitName[]
  readonly policies: readonly Policy[]
  readonly groups: readonly string[]
  readonly visit: PersonsVisit
  readonly filled: Filled
}) {
  const { tool, limits, policies, groups, visit, filled } = props
  const of = visit.query.get('of') ?? ''
  const now = policies.find(({ role }) => (role ?? '') === of)
  const value = (name: LimitName): string => {
    const set = now?.restrictions[name]
    return Array.isArray(set) ? set.join('\n') : set === undefined ? '' : String(set)
  }
  return (
    <section class="card" aria-labelledby="change">
      <h2 id="change">{now === undefined ? 'Limit, block or allow it' : 'Change a policy'}</h2>
      <PostForm action={toolPath(tool)} token={visit.token} class="fill">
        <OnceField />
        <Seen value={policySeen(of, now)} filled={filled} />
        <Select
          name="of"
          value={of}
          options={['', ...roles, ...groups].map((each) => [each, whoseWords(each === '' ? null : each)])}
          help="Change shows the policy that they have already."
          filled={filled}
        />
        <Select
          name="does"
          value={now?.allowed === false ? 'block' : now?.allowed === true ? 'allow' : 'limit'}
          options={deeds}
          help="A block or a limit of anybody else holds all the same: policies only restrict. Allow matters where tools without a policy are denied."
          filled={filled}
        />
        {limits.map((name) => (
          <Limit name={name} value={value(name)} filled={filled} />
        ))}
        <p class="note">
          It holds from the next decision on, also for calls that wait for an approval. A run with a call that
          breaks it is refused.
        </p>
        <button class="primary" name="action" value="save">
          Save the policy
        </button>
      </PostForm>
    </section>
  )
}

function Limit({ name, value, filled }: { name: LimitName; value: string; filled: Filled }) {
  const { help, kind } = limitWords[name]
  if (kind === 'flag')
    return (
      <Select
        name={name}
        value={value}
        options={[
          ['', 'No'],
          ['true', 'Yes'],
        ]}
        help={help}
        filled={filled}
      />
    )
  return (
    <Field
      name={name}
      value={value}
      optional={true}
      {...(kind === 'list' ? { rows: 2, most: 100_000 } : { most: 10 })}
      help={help}
      filled={filled}
    />
  )
}

const itemsIn = (text: string): string[] =>
  text
    .split(/[\n,;]+/)
    .map((each) => each.trim())
    .filter((each) => each !== '')

/** What the fields ask for. A number that cannot be read goes to the API as it is, which refuses it. */
export function restrictionsIn(form: Form): Policy['restrictions'] {
  const read = limitNames.flatMap((name): [string, unknown][] => {
    const text = (form.get(name) ?? '').trim()
    if (text === '') return []
    if (limitWords[name].kind === 'flag') return [[name, true]]
    if (limitWords[name].kind === 'list') return [[name, itemsIn(text)]]
    const number = text.replaceAll(/[\s,]/g, '')
    return [[name, /^\d+$/.test(number) ? Number(number) : text]]
  })
  return Object.fromEntries(read)
}

/** A detail about an item of a list stands at the field of the list, with the item. */
export function atFields(problem: Problem, given: Restrictions): Problem {
  const details = (problem.details ?? []).map(({ path, message }) => {
    const [first, name = '', item] = path.split('.')
    if (first !== 'restrictions' || name === '') return { path: first === 'role' ? 'of' : path, message }
    const values = given[name as LimitName]
    const value = Array.isArray(values) && item !== undefined ? values[Number(item)] : undefined
    return { path: name, message: value === undefined ? message : `\`${value}\`: ${message}` }
  })
  const isOfField = problem.code === 'validation_error' && details.length > 0
  return { ...problem, details, message: isOfField ? 'Nothing was saved. Change this:' : problem.message }
}
