import type { AnswerOf } from '../../api/routes/index.ts'
import { peoplePath, providerPath } from '../../contract/pages.ts'
import { waitingChanges, WaitingNote } from '../parts/change.tsx'
import {
  Confirm,
  empty,
  Fields,
  labelled,
  Refused,
  Told,
  type FieldOrSelect,
  type Filled,
} from '../parts/form.tsx'
import { PostForm } from '../parts/layout.tsx'
import { SettingsFrom } from '../parts/managed.tsx'
import { Badge } from '../parts/state.tsx'
import { Facts } from '../parts/values.tsx'
import { Time } from '../parts/time.tsx'
import { nothingDone } from '../parts/waiting.tsx'
import { OrganizationName, Words } from '../parts/words.tsx'
import {
  waitsFor,
  type Form,
  type Organization,
  type PersonsVisit,
  type Problem,
  type Result,
  type Shown,
} from '../visit.ts'
import { problemPage } from './plain.tsx'
import { createScimToken, endScimToken, ScimTokens, scimTokensOf } from './scim-tokens.tsx'

/* `/console/provider`: the provider with which people sign in, for owners. */

type SignIn = AnswerOf<'GET /organizations/{id}/sign-in'>
type Provider = NonNullable<SignIn['provider']>

const labels = {
  sso_url: 'Address of the sign-in',
  certificates: 'Certificates',
  issuer: 'Issuer',
  client_id: 'Client id',
  client_secret: 'Client secret',
  domains: 'Mail domains',
  groups_claim: 'Claim with the groups',
  role_map: 'Roles by group',
  group_map: 'Groups here by group',
  default_role: 'Role without a group',
  token_name: 'Name',
}

const notOwner: Problem = {
  status: 403,
  code: 'insufficient_role',
  message: 'only owners of an organization with members see and change how people sign in',
}

/** `GET /console/provider` */
export async function providerPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const filled = labelled(given, labels)
  const { organization } = visit.person
  if (organization === null || organization.personal || organization.role !== 'owner')
    return problemPage(notOwner, visit.place)
  const params = { id: organization.id }
  const [found, settings, tokens, changes] = await Promise.all([
    visit.api.call('GET /organizations/{id}/sign-in', { params }),
    visit.api.call('GET /organizations/{id}/governance', { params }),
    scimTokensOf(visit, organization.id),
    waitingChanges(visit),
  ])
  if (!found.ok) return problemPage(found, visit.place)
  if (!settings.ok) return problemPage(settings, visit.place)
  const { provider } = found.body
  return {
    status: filled.problem?.status ?? 200,
    title: 'Company sign-in',
    main: (
      <article class="page medium">
        <header class="headline">
          <h1>Company sign-in</h1>
          <p class="quiet">
            <OrganizationName name={organization.name} />
          </p>
        </header>
        <Refused filled={filled} />
        <Told visit={visit} results={results} />
        <WaitingNote changes={changes.get('sign_in')} now={visit.now} />
        {provider === null ? null : <Domains visit={visit} provider={provider} />}
        <Setting visit={visit} signIn={found.body} filled={filled} />
        {provider === null ? null : <Required visit={visit} settings={settings.body} />}
        {provider === null ? null : (
          <ScimTokens visit={visit} tokens={tokens} address={found.body.scim_uri} filled={filled} />
        )}
        <p>
          <a href={peoplePath}>Back to the people</a>
        </p>
      </article>
    ),
  }
}

const results: Readonly<Record<string, string>> = {
  save: 'The provider is saved. Prove each domain below, if it is not proven yet.',
  test: 'The provider answers, and its description is complete. Now sign in with it once.',
  prove: 'The domain is proven. People with such an address can sign in with the provider.',
  require: 'The setting is saved, and holds at once.',
  'token-end': 'The token is ended. The directory is refused at once.',
  remove: 'The provider is removed. The sessions that it opened have ended.',
}

function Domains({ visit, provider }: { visit: PersonsVisit; provider: Provider }) {
  return (
    <section class="card" aria-labelledby="proofs">
      <h2 id="proofs">Your domains</h2>
      {provider.domains.map(({ domain, proven_at: at, record }) => (
        <div class="stack">
          <p class="badges">
            <strong>
              <Words text={domain} />
            </strong>
            {at === null ? <Badge tone="wait" word="Not proven" /> : <Badge tone="good" word="Proven" />}
            {at === null ? null : <Time at={at} now={visit.now} />}
          </p>
          {at === null ? (
            <>
              <p>
                Where you manage the domain, add a TXT record named <code>{record.name}</code> with this text:
              </p>
              <p>
                <code class="whole">{record.value}</code>
              </p>
              <PostForm action={providerPath} token={visit.token}>
                <input type="hidden" name="domain" value={domain} />
                <button name="action" value="prove">
                  Look for the record<span class="unseen">{` of ${domain}`}</span>
                </button>
              </PostForm>
            </>
          ) : null}
        </div>
      ))}
      <PostForm action={providerPath} token={visit.token}>
        <button name="action" value="test">
          Test the provider
        </button>
      </PostForm>
    </section>
  )
}

const kinds = { oidc: 'OpenID Connect', saml: 'SAML 2.0' } as const
type Kind = keyof typeof kinds

/** What the form has sent, else what the address asks for, else what is saved. null: the person chooses first. */
function kindOf({ query }: PersonsVisit, { form }: Filled, provider: SignIn['provider']): Kind | null {
  const kind = form?.get('kind') ?? query.get('kind') ?? provider?.kind
  return kind === 'oidc' || kind === 'saml' ? kind : null
}

function Setting(props: { visit: PersonsVisit; signIn: SignIn; filled: Filled }) {
  const { visit, signIn, filled } = props
  const { provider } = signIn
  const kind = kindOf(visit, filled, provider)
  const link = (each: Kind) => <a href={`${providerPath}?kind=${each}#setting`}>{kinds[each]}</a>
  if (kind === null)
    return (
      <section class="card stack" aria-labelledby="setting">
        <h2 id="setting">Set up a provider</h2>
        <p>What does your provider speak? Most speak both: then take OpenID Connect.</p>
        <p class="links">
          {link('oidc')}
          {link('saml')}
        </p>
      </section>
    )
  // The fields of the other kind mean nothing here.
  const saved = provider?.kind === kind ? provider : null
  return (
    <section class="card" aria-labelledby="setting">
      <h2 id="setting">{`${provider === null ? 'Set up a provider' : 'The provider'}: ${kinds[kind]}`}</h2>
      <Registration kind={kind} signIn={signIn} />
      <PostForm action={providerPath} token={visit.token} class="fill">
        <input type="hidden" name="kind" value={kind} />
        <Fields
          filled={filled}
          fields={[
            ...(kind === 'oidc' ? oidcFields(saved) : samlFields(saved)),
            {
              name: 'domains',
              rows: 2,
              most: 12_000,
              value: provider?.domains.map(({ domain }) => domain).join('\n') ?? '',
              help: 'One in each line. People with such an address use this provider, once you have proven the domain.',
            },
            ...rightsFields(kind, provider),
          ]}
        />
        <button class="primary" name="action" value="save">
          Save
        </button>
      </PostForm>
      <p class="quiet small">Does your provider speak {link(kind === 'oidc' ? 'saml' : 'oidc')}?</p>
    </section>
  )
}

/** What the provider must know of this service. */
function Registration({ kind, signIn }: { kind: Kind; signIn: SignIn }) {
  const rows =
    kind === 'oidc'
      ? ([
          ['Redirect address', signIn.redirect_uri],
          ['Back-channel logout', signIn.backchannel_logout_uri],
        ] as const)
      : ([
          ['Address of our metadata', signIn.metadata_url],
          ['Where it sends its answer', signIn.acs_url],
        ] as const)
  return (
    <>
      <p>
        {kind === 'oidc'
          ? 'Register Countersign at your provider: a web application with a secret, and these addresses.'
          : 'Give your provider the address of our metadata. If it cannot read that, it needs the second address.'}
      </p>
      <Facts facts={rows.map(([name, value]) => [name, <code class="whole">{value}</code>])} />
    </>
  )
}

const oidcFields = (saved: Provider | null): FieldOrSelect[] => [
  {
    name: 'issuer',
    most: 500,
    value: saved?.issuer ?? '',
    help: 'The name of the provider, exactly as it writes it: https://login.acme.com.',
  },
  {
    name: 'client_id',
    most: 500,
    value: saved?.client_id ?? '',
    help: 'The provider gives it to Countersign.',
  },
  {
    name: 'client_secret',
    type: 'password',
    most: 2_000,
    ...(saved === null
      ? { help: 'It is stored sealed, and never shown again.' }
      : { optional: true, help: 'Leave it empty to keep the present one.' }),
  },
]

const samlFields = (saved: Provider | null): FieldOrSelect[] => [
  {
    name: 'issuer',
    label: 'Entity id of the provider',
    most: 500,
    value: saved?.issuer ?? '',
    help: 'Exactly as its metadata writes it.',
  },
  {
    name: 'sso_url',
    most: 500,
    value: saved?.sso_url ?? '',
    help: 'Where the provider takes requests (HTTP-Redirect).',
  },
  {
    name: 'certificates',
    rows: 4,
    most: 50_000,
    value: saved?.certificates.join('\n') ?? '',
    help: 'In PEM, one behind the other. Add the new one before your provider changes it.',
  },
]

/** `finance = member`, one in each line. */
const pairsOf = (map: Readonly<Record<string, string>> = {}): string =>
  Object.entries(map)
    .map((pair) => pair.join(' = '))
    .join('\n')

/** Which role and which groups the people of the provider get. */
const rightsFields = (kind: Kind, provider: SignIn['provider']): FieldOrSelect[] => [
  {
    name: 'default_role',
    options: [
      ['', 'None: only invited people and those with a group below'],
      ['viewer', 'Viewer: sees runs'],
      ['member', 'Member: starts runs, changes workflows and files'],
      ['admin', 'Admin: decides, writes rules'],
    ],
    value: provider?.default_role ?? '',
  },
  {
    name: 'groups_claim',
    label: kind === 'oidc' ? labels.groups_claim : 'Attribute with the groups',
    most: 100,
    optional: true,
    value: provider?.groups_claim ?? '',
    help: 'Usually groups. Leave it empty if groups give no roles.',
  },
  {
    name: 'role_map',
    rows: 4,
    most: 20_000,
    optional: true,
    value: pairsOf(provider?.role_map),
    help: 'One group in each line: finance = member. Then each sign-in sets the role, and who loses all groups loses the membership.',
  },
  {
    name: 'group_map',
    rows: 3,
    most: 20_000,
    optional: true,
    value: pairsOf(provider?.group_map),
    help: 'One in each line: CN=Finance = finance. Each sign-in puts the person into these groups, or takes them out. A group that comes from a file stays as the file says.',
  },
  {
    name: 'checks_factor',
    label: 'Does the provider always ask for a second factor?',
    options: [
      ['', 'Only when it says so in the sign-in'],
      ['true', 'Yes, always'],
    ],
    value: provider?.checks_factor === true ? 'true' : '',
  },
]

function Required(props: { visit: PersonsVisit; settings: AnswerOf<'GET /organizations/{id}/governance'> }) {
  const { visit, settings } = props
  const { require_sso: isRequired, managed_by: managed } = settings
  return (
    <section class="card" aria-labelledby="required">
      <h2 id="required">Who may still use a password</h2>
      <p>
        {isRequired
          ? 'Only sign-ins with the provider count here. Owners can also use their password with a second factor; the audit log shows it.'
          : 'Passwords count too. If you require the provider, only owners can still use a password, with a second factor.'}
      </p>
      {managed === null ? (
        <PostForm action={providerPath} token={visit.token}>
          <button name="action" value={isRequired ? 'free' : 'require'}>
            {isRequired ? 'Let passwords count' : 'Require the provider'}
          </button>
        </PostForm>
      ) : (
        <SettingsFrom managed={managed} />
      )}
      {isRequired ? null : (
        <Confirm
          action={providerPath}
          token={visit.token}
          value="remove"
          open="Remove the provider …"
          explanation="The sessions that it opened end at once. People sign in with their passwords."
          sure="Remove it"
        />
      )}
    </section>
  )
}

/** `POST /console/provider` */
export async function changeProvider(visit: PersonsVisit, form: Form): Promise<Shown> {
  const { organization } = visit.person
  if (organization === null) return problemPage(notOwner, visit.place)
  const action = form.get('action') ?? ''
  if (action === 'token-create') {
    const made = await createScimToken(visit, form, organization.id)
    return 'page' in made ? made.page : providerPage(visit, made)
  }
  const done = await act(visit, organization, action, form)
  if (done === null) return providerPage(visit, { form: null, problem: nothingDone })
  // A page must not show it again.
  form.delete('client_secret')
  if (done.ok)
    return {
      redirect: waitsFor(done.body) ?? `${providerPath}?done=${action === 'free' ? 'require' : action}`,
    }
  return providerPage(visit, { form: action === 'save' ? form : null, problem: done })
}

async function act(
  visit: PersonsVisit,
  { id }: Organization,
  action: string,
  form: Form,
): Promise<Result<unknown> | null> {
  const { api } = visit
  const params = { id }
  switch (action) {
    case 'save':
      return save(api, id, form)
    case 'test': {
      const tested = await api.call('POST /organizations/{id}/sign-in/test', { params })
      return tested.ok && !tested.body.ok
        ? { ok: false, status: 409, code: 'conflict', message: tested.body.message }
        : tested
    }
    case 'prove':
      return api.call('POST /organizations/{id}/sign-in/domains/{domain}/prove', {
        params: { id, domain: form.get('domain') ?? '' },
      })
    case 'require':
    case 'free':
      return api.call('PATCH /organizations/{id}/governance', {
        params,
        body: { require_sso: action === 'require' },
      })
    case 'token-end':
      return endScimToken(visit, form, id)
    case 'remove':
      return api.call('DELETE /organizations/{id}/sign-in', { params })
    default:
      return null
  }
}

function save(api: PersonsVisit['api'], id: string, form: Form): Promise<Result<unknown>> {
  const text = (name: string): string => (form.get(name) ?? '').trim()
  const pairs = (name: string): Record<string, string> =>
    Object.fromEntries(
      linesOf(text(name), '\n').map((line) => {
        const at = line.lastIndexOf('=')
        return at < 0 ? [line, ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()]
      }),
    )
  const secret = form.get('client_secret') ?? ''
  // The route refuses any other role, and names it.
  const body = {
    kind: text('kind') === 'saml' ? ('saml' as const) : ('oidc' as const),
    issuer: text('issuer'),
    ...(text('client_id') === '' ? {} : { client_id: text('client_id') }),
    ...(text('sso_url') === '' ? {} : { sso_url: text('sso_url') }),
    ...(text('certificates') === ''
      ? {}
      : {
          certificates: text('certificates')
            .split(/(?<=-----END CERTIFICATE-----)\s*/)
            .filter((each) => each !== ''),
        }),
    ...(secret === '' ? {} : { client_secret: secret }),
    domains: linesOf(text('domains'), /[\n,]/),
    groups_claim: text('groups_claim') === '' ? null : text('groups_claim'),
    role_map: pairs('role_map') as Record<string, 'viewer'>,
    group_map: pairs('group_map'),
    default_role: (text('default_role') === '' ? null : text('default_role')) as 'viewer' | null,
    checks_factor: form.get('checks_factor') === 'true',
  }
  return api.call('PUT /organizations/{id}/sign-in', { params: { id }, body })
}

const linesOf = (text: string, between: string | RegExp): string[] =>
  text
    .split(between)
    .map((line) => line.trim())
    .filter((line) => line !== '')
