import type { AnswerOf } from '../../api/routes/index.ts'
import { installPath, keysPath, secondFactorPath } from '../../contract/pages.ts'
import {
  Confirm,
  empty,
  Field,
  onceOf,
  problemsAt,
  labelled,
  Refused,
  Select,
  Wrong,
  type Filled,
} from '../parts/form.tsx'
import { Empty, Pager, Table } from '../parts/list.tsx'
import { Island } from '../parts/island.tsx'
import { accessIn, AgentAccess } from '../parts/agent-access.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { groupsOf, groupsOfAccount, groupsWith, presets, sentenceOfScopes } from '../parts/scopes.ts'
import { ScopeChoice } from '../parts/scope-choice.tsx'
import { secretPage } from '../parts/secret.tsx'
import { Badge } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import { Facts } from '../parts/values.tsx'
import { nothingDone } from '../parts/waiting.tsx'
import { OrganizationName, Words } from '../parts/words.tsx'
import {
  organizationId,
  type Form,
  type Organization,
  type PersonsVisit,
  type Problem,
  type Result,
  type Shown,
} from '../visit.ts'
import { plainPage, problemPage } from './plain.tsx'
import { serviceAccountsOf } from './service-accounts.tsx'

/* `/console/keys`: the keys of programs. Everybody has own ones; an owner sees all of the organization. */

type Key = AnswerOf<'GET /api-keys'>['data'][number]

const perPage = '50'

/** `GET /console/keys` */
export async function keysPage(visit: PersonsVisit): Promise<Shown> {
  const { organization } = visit.person
  if (organization === null) return problemPage(noOrganization, visit.place)
  const cursor = visit.query.get('cursor')
  const [listed, people] = await Promise.all([
    visit.api.call('GET /api-keys', {
      query: { organization_id: organization.id, limit: perPage, ...(cursor === null ? {} : { cursor }) },
    }),
    peopleOf(visit, organization),
  ])
  if (!listed.ok) return problemPage(listed, visit.place)
  const { data, next_cursor: next } = listed.body
  const keys = data.filter((key) => key.deleted_at === null)
  const isOwner = organization.role === 'owner'
  return {
    status: 200,
    title: 'Keys',
    main: (
      <article class="page">
        <header class="headline">
          <div class="split">
            <h1>{isOwner ? 'Keys of the organization' : 'Your keys'}</h1>
            <a class="button primary" href={`${keysPath}/new`}>
              Create a key
            </a>
          </div>
          <p class="quiet">
            <OrganizationName name={organization.name} />
          </p>
        </header>
        {visit.query.get('deleted') === null ? null : (
          <p class="note" role="status">
            The key is deleted. Programs that use it are refused.
          </p>
        )}
        {keys.length === 0 ? (
          <Empty title="There is no key here.">
            A program needs a key to call the API. <a href={`${keysPath}/new`}>Create the first one</a>.
          </Empty>
        ) : (
          <Table
            label="Keys"
            head={['Key', 'May', 'Used', 'Ends', ...(isOwner ? ['Of'] : [])]}
            rows={keys.map((key) => rowOf(key, visit, isOwner ? people : null))}
          />
        )}
        <Pager
          path={keysPath}
          chosen={cursor === null ? {} : { cursor }}
          cursor="cursor"
          next={next}
          words={{ first: 'Newest keys', next: 'Older keys' }}
        />
      </article>
    ),
  }
}

const noOrganization: Problem = {
  status: 403,
  code: 'insufficient_role',
  message: 'you are not a member of an organization',
}

type People = ReadonlyMap<string, string>

/** Addresses by id, for an owner. Members beyond the first 200 are shown by their ids. */
async function peopleOf(visit: PersonsVisit, { id, role }: Organization): Promise<People> {
  const { user } = visit.person
  const own = [user.id, user.email] as const
  if (role !== 'owner') return new Map([own])
  const [found, accounts] = await Promise.all([
    visit.api.call('GET /organizations/{id}/members', { params: { id }, query: { limit: '200' } }),
    serviceAccountsOf(visit, id),
  ])
  return new Map([
    ...(found.ok ? found.body.data.map(({ user_id, email }) => [user_id, email] as const) : [own]),
    ...accounts.map((account) => [account.id, `${account.name} (service account)`] as const),
  ])
}

function rowOf(key: Key, { now, person }: PersonsVisit, people: People | null) {
  return [
    <>
      <a class="item-link" href={`${keysPath}/${key.id}`}>
        <Words text={key.name} most={100} />
      </a>{' '}
      <KeyEnd last4={key.last4} />
      <States states={key} isOwn={key.user_id === person.user.id} now={now} />
    </>,
    sentenceOfScopes(scopesOf(key)),
    key.last_used_at === null ? 'never' : <Time at={key.last_used_at} now={now} />,
    key.expires_at === null ? 'never' : <Time at={key.expires_at} now={now} />,
    ...(people === null ? [] : [<Words text={people.get(key.user_id) ?? key.user_id} most={100} />]),
  ]
}

const scopesOf = ({ scopes }: Key): string[] => Object.keys(scopes).filter((name) => scopes[name] === true)

const KeyEnd = ({ last4 }: { last4: string }) => <code>{`…${last4}`}</code>

function States({ states: key, isOwn, now }: { states: Key; isOwn: boolean; now: Date }) {
  const isOver = key.expires_at !== null && new Date(key.expires_at) <= now
  return (
    <p class="badges">
      {key.deleted_at !== null ? <Badge tone="bad" word="Deleted" /> : null}
      {key.revoked_at !== null && key.deleted_at === null ? <Badge tone="off" word="Switched off" /> : null}
      {isOver ? <Badge tone="off" word="Expired" /> : null}
      {key.needs_confirmation && key.active ? (
        <Badge tone="warn" word={isOwn ? 'Confirm it' : 'Not confirmed'} />
      ) : null}
    </p>
  )
}

/* A new key. */

/** `GET /console/keys/new`. The form offers what the role of the person can use. */
export async function newKeyPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const filled = labelled(given, fields)
  const { organization } = visit.person
  if (organization === null) return problemPage(noOrganization, visit.place)
  const scopes = await visit.api.call('GET /scopes')
  if (!scopes.ok) return problemPage(scopes, visit.place)
  const account = await accountOf(visit, organization, filled)
  const groups =
    account === null ? groupsOf(scopes.body, organization.role) : groupsOfAccount(scopes.body, account.role)
  const offered = groups.flatMap(({ options }) => options.map(([name]) => name))
  const usable = presets
    .filter(([, , , needed]) => needed === null || offered.includes(needed))
    .map(([name, words, has]) => ({
      words,
      href: `${keysPath}/new?for=${name}${account === null ? '' : `&account=${account.id}`}`,
      name,
      scopes: offered.filter(has),
    }))
    .filter(({ scopes: each }) => each.length > 0)
  const chosen = usable.find(({ name }) => name === visit.query.get('for'))
  const ofAgent = visit.query.get('for') === 'agent' ? (visit.query.get('client') ?? '') : null
  const agent = filled.form === null ? ofAgent : filled.form.get('agent')
  return {
    status: filled.problem?.status ?? 200,
    title: 'Create a key',
    main: (
      <article class="page medium">
        <header class="headline">
          <Crumbs />
          <h1>Create a key</h1>
          <p class="quiet">
            <OrganizationName name={organization.name} />
          </p>
          <p class="quiet">
            {account === null ? (
              <>A program with this key acts as you, with the rights that you choose here.</>
            ) : (
              <>
                A program with this key acts as the service account{' '}
                <strong>
                  <Words text={account.name} most={100} />
                </strong>
                . The key does not end with you.
              </>
            )}
          </p>
        </header>
        <Refused filled={filled} />
        <PostForm action={`${keysPath}/new`} token={visit.token} class="card fill">
          <OnceField />
          {agent === null ? null : <input type="hidden" name="agent" value={agent} />}
          {account === null ? null : <input type="hidden" name="service_account" value={account.id} />}
          <Field
            name="name"
            most={200}
            help="So that you know later what uses it, such as “laptop” or “nightly report”."
            filled={filled}
          />
          <Ends now={visit.now} filled={filled} />
          <Scopes groups={groups} checked={chosen?.scopes ?? []} presets={usable} filled={filled} />
          <AgentAccess whose="that asks with this key" value="allow" filled={filled} />
          <button class="primary">Create the key</button>
        </PostForm>
      </article>
    ),
  }
}

type ScopesShown = Omit<Parameters<typeof ScopeChoice>[0], 'isWrong'> & { readonly filled: Filled }

/** After a refusal, what was sent stays checked. */
function Scopes({ filled, checked, ...shown }: ScopesShown) {
  const all = shown.groups.flatMap(({ options }) => options.map(([name]) => name))
  const wrong = problemsAt(filled, 'scopes', all)
  const props = { ...shown, isWrong: wrong.length > 0, checked: filled.form?.getAll('scopes') ?? checked }
  return (
    <>
      <Wrong name="scopes" wrong={wrong} />
      <Island of={ScopeChoice} props={props} />
    </>
  )
}

/** Named by the address or the form; null for a key of one's own. */
async function accountOf(visit: PersonsVisit, organization: Organization, { form }: Filled) {
  const id = form?.get('service_account') ?? visit.query.get('account')
  if (id === null || organization.role !== 'owner') return null
  return (await serviceAccountsOf(visit, organization.id)).find((each) => each.id === id) ?? null
}

const fields = { name: 'Name', expires_at: 'It ends', scopes: 'What it may do' }

const Crumbs = () => (
  <p class="crumbs small">
    <a href={keysPath}>Keys</a>
  </p>
)

const day = 86_400_000
/** Days, and their words. */
const lengths = [
  [7, 'in a week'],
  [30, 'in 30 days'],
  [90, 'in 90 days'],
  [365, 'in a year'],
] as const

/** The values are times, so that a second tap on the button sends the same. */
function Ends({ now, filled, before }: { now: Date; filled: Filled; before?: string | null }) {
  const options = lengths.map(
    ([days, words]) => [new Date(now.getTime() + days * day).toISOString(), words] as const,
  )
  const kept = before === undefined ? [] : ([[before ?? '', 'as it is']] as const)
  const typed = filled.form?.get('expires_at') ?? null
  const sent = typed === null || typed === '' ? [] : ([[typed, `on ${typed.slice(0, 10)}`]] as const)
  return (
    <Select
      name="expires_at"
      label="It ends"
      options={[...kept, ...sent, ...options, ...(before === null ? [] : ([['', 'never']] as const))]}
      value={before === undefined ? (options[2]?.[0] ?? '') : (before ?? '')}
      help="A key that ends by itself cannot be forgotten."
      filled={filled}
    />
  )
}

function missingIn(form: Form): Problem | null {
  const details = [
    ...((form.get('name') ?? '').trim() === '' ? [{ path: 'name', message: 'Write a name.' }] : []),
    ...(form.getAll('scopes').length === 0
      ? [{ path: 'scopes', message: 'Check at least one thing that the key may do.' }]
      : []),
  ]
  const message = 'Something is missing.'
  return details.length === 0 ? null : { status: 422, code: 'validation_error', message, details }
}

/** `POST /console/keys/new` */
export async function createKey(visit: PersonsVisit, form: Form): Promise<Shown> {
  const account = form.get('service_account')
  const agent = form.get('agent')
  const missing = missingIn(form)
  if (missing !== null) return newKeyPage(visit, { form, problem: missing })
  const made = await visit.api.call('POST /api-keys', {
    body: {
      name: form.get('name') ?? '',
      scopes: form.getAll('scopes'),
      expires_at: form.get('expires_at') || null,
      organization_id: organizationId(visit),
      default_agent_access: accessIn(form),
      ...(account === null ? {} : { service_account: account }),
    },
    ...onceOf(form),
  })
  if (!made.ok) return newKeyPage(visit, { form, problem: made })
  const { api_key: secret, name, id, needs_confirmation: needsFactor } = made.body
  return secretPage({
    title: 'Your new key',
    label: 'The key',
    secret,
    inside: (
      <p class="quiet">
        <Words text={name} /> stands in the list of keys from now on.
      </p>
    ),
    after: (
      <>
        {needsFactor ? (
          <p class="note">
            The organization refuses this key until you have confirmed it with your second factor.
          </p>
        ) : null}
        <p class="links">
          <a href={`${keysPath}/${id}`}>{needsFactor ? 'Confirm it' : 'See what it may do'}</a>
          {agent === null ? null : (
            <a href={`${installPath}?client=${encodeURIComponent(agent)}`}>Back to the installation</a>
          )}
          <a href={keysPath}>All keys</a>
        </p>
      </>
    ),
  })
}

/* One key. */

/** `GET /console/keys/{id}` */
export async function keyPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const filled = labelled(given, fields)
  const { organization, user } = visit.person
  const found = await visit.api.call('GET /api-keys/{id}', { params: { id: visit.params['id'] ?? '' } })
  if (!found.ok || organization === null) return problemPage(found.ok ? noOrganization : found, visit.place)
  const key = found.body
  const [people, scopes, accounts] = await Promise.all([
    peopleOf(visit, organization),
    visit.api.call('GET /scopes'),
    serviceAccountsOf(visit, organization.id),
  ])
  const account = accounts.find(({ id }) => id === key.user_id)
  // An owner stands for the service accounts.
  const isOwn = key.user_id === user.id || (account !== undefined && organization.role === 'owner')
  const path = `${keysPath}/${key.id}`
  const groups =
    !isOwn || !scopes.ok
      ? groupsWith(scopesOf(key))
      : account === undefined
        ? groupsOf(scopes.body, organization.role, scopesOf(key))
        : groupsOfAccount(scopes.body, account.role)
  return {
    status: filled.problem?.status ?? 200,
    title: key.name,
    main: (
      <article class="page medium">
        <header class="headline">
          <Crumbs />
          <h1>
            <Words text={key.name} most={200} />
          </h1>
          <States states={key} isOwn={isOwn} now={visit.now} />
        </header>
        <Refused filled={filled} />
        {visit.query.get('saved') === null ? null : (
          <p class="note" role="status">
            Saved. It holds at once, everywhere.
          </p>
        )}
        <About
          keyShown={key}
          owner={people.get(key.user_id) ?? key.user_id}
          maker={
            account === undefined ? undefined : (people.get(key.created_by ?? '') ?? key.created_by ?? '')
          }
          now={visit.now}
        />
        {key.needs_confirmation && key.deleted_at === null ? (
          <Unconfirmed isOwn={isOwn} path={path} token={visit.token} />
        ) : null}
        {key.deleted_at === null ? (
          <>
            <PostForm action={path} token={visit.token} class="card fill">
              <h2>{isOwn ? 'Change it' : 'Take rights away'}</h2>
              {isOwn ? null : (
                <p class="quiet">Only the key’s person can add rights or let it last longer.</p>
              )}
              <Field name="name" most={200} value={key.name} filled={filled} />
              <Ends now={visit.now} filled={filled} before={key.expires_at} />
              <Scopes groups={groups} checked={scopesOf(key)} presets={[]} filled={filled} />
              <AgentAccess
                whose="that asks with this key"
                value={key.default_agent_access}
                isFixed={key.default_agent_access === 'deny'}
                filled={filled}
              />
              <button class="primary" name="action" value="change">
                Save
              </button>
            </PostForm>
            <Switch keyShown={key} isOwn={isOwn} path={path} token={visit.token} />
          </>
        ) : null}
      </article>
    ),
  }
}

interface AboutProps {
  readonly keyShown: Key
  readonly owner: string
  /** Undefined for a person’s own key. */
  readonly maker: string | undefined
  readonly now: Date
}

function About({ keyShown: key, owner, maker, now }: AboutProps) {
  return (
    <section class="card" aria-label="About the key">
      <Facts
        facts={[
          ['Key', <KeyEnd last4={key.last4} />],
          ['Of', <Words text={owner} />],
          ...(maker === undefined ? [] : [['Made by', <Words text={maker} />] as const]),
          ['Made', <Time at={key.created_at} now={now} exact />],
          ['Used', key.last_used_at === null ? 'never' : <Time at={key.last_used_at} now={now} exact />],
          ['Ends', key.expires_at === null ? 'never' : <Time at={key.expires_at} now={now} exact />],
          [
            'Factor',
            key.factor_confirmed_at === null ? (
              'not confirmed with a second factor'
            ) : (
              <>
                confirmed <Time at={key.factor_confirmed_at} now={now} exact />
              </>
            ),
          ],
        ]}
      />
    </section>
  )
}

const Unconfirmed = ({ isOwn, path, token }: { isOwn: boolean; path: string; token: string }) => (
  <section class="card stack" aria-labelledby="unconfirmed">
    <h2 id="unconfirmed">It must be confirmed</h2>
    <p>The organization requires a second factor, and refuses this key until its person confirms it.</p>
    {isOwn ? (
      <PostForm action={path} token={token}>
        <OnceField />
        <button class="primary" name="action" value="confirm">
          Confirm it
        </button>
      </PostForm>
    ) : null}
  </section>
)

function Switch(props: { keyShown: Key; isOwn: boolean; path: string; token: string }) {
  const { keyShown: key, isOwn, path, token } = props
  const isOff = key.revoked_at !== null
  return (
    <section class="card" aria-labelledby="switch">
      <h2 id="switch">{isOff ? 'It is switched off' : 'Switch it off, or delete it'}</h2>
      {isOff && !isOwn ? <p class="quiet">Only the key’s person can switch it on again.</p> : null}
      {isOff && !isOwn ? null : (
        <PostForm action={path} token={token}>
          <button name="action" value={isOff ? 'on' : 'off'}>
            {isOff ? 'Switch it on' : 'Switch it off'}
          </button>
        </PostForm>
      )}
      <Confirm
        action={path}
        token={token}
        value="delete"
        open="Delete it …"
        explanation="Every program that uses this key is refused from now on. It cannot be switched on again."
        sure="Delete the key"
      />
    </section>
  )
}

/** `POST /console/keys/{id}` */
export async function changeKey(visit: PersonsVisit, form: Form): Promise<Shown> {
  const { api, params } = visit
  const id = params['id'] ?? ''
  const action = form.get('action')
  if (action === 'delete') {
    const deleted = await api.call('DELETE /api-keys/{id}', { params: { id } })
    return deleted.ok ? { redirect: `${keysPath}?deleted` } : keyPage(visit, { form: null, problem: deleted })
  }
  const done = await changeOf(visit, form, id)
  if (done.ok) return { redirect: `${keysPath}/${id}?saved` }
  if (done.code === 'mfa_required') return factorFirst(id, done)
  return keyPage(visit, { form: action === 'change' ? form : null, problem: done })
}

function changeOf({ api }: PersonsVisit, form: Form, id: string): Promise<Result<Key>> {
  switch (form.get('action')) {
    case 'confirm':
      return api.call('POST /api-keys/{id}/confirm', { params: { id }, ...onceOf(form) })
    case 'on':
    case 'off':
      return api.call('PATCH /api-keys/{id}', {
        params: { id },
        body: { active: form.get('action') === 'on' },
      })
    case 'change':
      return api.call('PATCH /api-keys/{id}', {
        params: { id },
        body: {
          name: form.get('name') ?? '',
          scopes: form.getAll('scopes'),
          expires_at: form.get('expires_at') || null,
          default_agent_access: accessIn(form),
        },
      })
    default:
      return Promise.resolve(nothingDone)
  }
}

/** A key is confirmed in a session that was opened with the factor. */
const factorFirst = (id: string, problem: Problem) =>
  plainPage('A second factor is needed', problem, [
    <p>Prove your second factor first. Then confirm the key.</p>,
    <p>
      <a
        class="button primary"
        href={`${secondFactorPath}?return=${encodeURIComponent(`${keysPath}/${id}`)}`}
      >
        Go to the second factor
      </a>
    </p>,
  ])
