import type { AnswerOf } from '../../api/routes/index.ts'
import { peoplePath, providerPath } from '../../contract/pages.ts'
import { Confirm, empty, Field, Refused, Select, type Filled } from '../parts/form.tsx'
import { PostForm } from '../parts/layout.tsx'
import { Badge } from '../parts/state.tsx'
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
  kind: 'What the provider speaks',
  sso_url: 'Address of the sign-in (SAML)',
  certificates: 'Certificates (SAML)',
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
export async function providerPage(visit: PersonsVisit, filled: Filled = empty): Promise<Shown> {
  const { organization } = visit.person
  if (organization === null || organization.personal || organization.role !== 'owner')
    return problemPage(notOwner, visit.place)
  const params = { id: organization.id }
  const [found, settings, tokens] = await Promise.all([
    visit.api.call('GET /organizations/{id}/sign-in', { params }),
    visit.api.call('GET /organizations/{id}/governance', { params }),
    scimTokensOf(visit, organization.id),
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
        <Refused filled={filled} fields={labels} />
        <Told result={visit.query.get('done')} />
        {provider === null ? null : <Domains visit={visit} provider={provider} />}
        <Setting visit={visit} signIn={found.body} filled={filled} />
        {provider === null ? null : (
          <Required visit={visit} isRequired={settings.body.require_sso} provider={provider} />
        )}
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

const Told = ({ result }: { result: string | null }) =>
  result === null || results[result] === undefined ? null : (
    <p class="note" role="status">
      {results[result]}
    </p>
  )

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

function Setting(props: { visit: PersonsVisit; signIn: SignIn; filled: Filled }) {
  const { visit, filled } = props
  const { provider, redirect_uri: redirect, backchannel_logout_uri: logout } = props.signIn
  const text = (
    name: 'issuer' | 'client_id' | 'sso_url',
    help: string,
    optional: { optional?: true } = {},
  ) => (
    <Field
      name={name}
      label={labels[name]}
      autocomplete="off"
      most={500}
      {...optional}
      value={(name === 'client_id' && provider?.kind === 'saml' ? null : provider?.[name]) ?? ''}
      help={help}
      filled={filled}
    />
  )
  return (
    <section class="card" aria-labelledby="setting">
      <h2 id="setting">{provider === null ? 'Set up a provider' : 'The provider'}</h2>
      <p>
        Register Countersign at your provider (OpenID Connect, a web application with a secret) with these
        addresses. The first is the redirect address, the second the one for back-channel logout:
      </p>
      <p>
        <code class="whole">{redirect}</code>
      </p>
      <p>
        <code class="whole">{logout}</code>
      </p>
      <p>With SAML 2.0, give your provider the address of our metadata, or where it sends its answer:</p>
      <p>
        <code class="whole">{props.signIn.metadata_url}</code>
      </p>
      <p>
        <code class="whole">{props.signIn.acs_url}</code>
      </p>
      <PostForm action={providerPath} token={visit.token} class="fill">
        <Select
          name="kind"
          label={labels.kind}
          options={[
            ['oidc', 'OpenID Connect'],
            ['saml', 'SAML 2.0'],
          ]}
          value={provider?.kind ?? 'oidc'}
          filled={filled}
        />
        {text(
          'issuer',
          'The name of the provider, exactly as it writes it: https://login.acme.com. With SAML its entity id.',
        )}
        {text('client_id', 'With OpenID Connect: the provider gives it to Countersign.', { optional: true })}
        {text('sso_url', 'With SAML: where the provider takes requests (HTTP-Redirect).', { optional: true })}
        <Field
          name="certificates"
          label={labels.certificates}
          rows={4}
          autocomplete="off"
          most={50_000}
          optional
          value={provider?.certificates.join('\n') ?? ''}
          help="With SAML, in PEM, one behind the other. Add the new one before your provider changes it."
          filled={filled}
        />
        <Field
          name="client_secret"
          label={labels.client_secret}
          type="password"
          autocomplete="off"
          most={2_000}
          optional
          help={
            provider === null
              ? 'It is stored sealed, and never shown again.'
              : 'Leave it empty to keep the present one.'
          }
          filled={filled}
        />
        <Field
          name="domains"
          label={labels.domains}
          rows={2}
          autocomplete="off"
          most={12_000}
          value={provider?.domains.map(({ domain }) => domain).join('\n') ?? ''}
          help="One in each line. People with such an address use this provider, once you have proven the domain."
          filled={filled}
        />
        <Select
          name="default_role"
          label={labels.default_role}
          options={[
            ['', 'None: only invited people and those with a group below'],
            ['viewer', 'Viewer: sees runs'],
            ['member', 'Member: starts runs'],
            ['admin', 'Admin: decides, writes rules'],
          ]}
          value={provider?.default_role ?? ''}
          filled={filled}
        />
        <Field
          name="groups_claim"
          label={labels.groups_claim}
          autocomplete="off"
          most={100}
          optional
          value={provider?.groups_claim ?? ''}
          help="Usually groups. Leave it empty if groups give no roles."
          filled={filled}
        />
        <Field
          name="role_map"
          label={labels.role_map}
          rows={4}
          autocomplete="off"
          most={20_000}
          optional
          value={Object.entries(provider?.role_map ?? {})
            .map((pair) => pair.join(' = '))
            .join('\n')}
          help="One group in each line: finance = member. Then each sign-in sets the role, and who loses all groups loses the membership."
          filled={filled}
        />
        <Field
          name="group_map"
          label={labels.group_map}
          rows={3}
          autocomplete="off"
          most={20_000}
          optional
          value={Object.entries(provider?.group_map ?? {})
            .map((pair) => pair.join(' = '))
            .join('\n')}
          help="One in each line: CN=Finance = finance. Each sign-in puts the person into these groups, or takes them out."
          filled={filled}
        />
        <Select
          name="checks_factor"
          label="Does the provider always ask for a second factor?"
          options={[
            ['', 'Only when it says so in the sign-in'],
            ['true', 'Yes, always'],
          ]}
          value={provider?.checks_factor === true ? 'true' : ''}
          filled={filled}
        />
        <button class="primary" name="action" value="save">
          Save
        </button>
      </PostForm>
    </section>
  )
}

function Required(props: { visit: PersonsVisit; isRequired: boolean; provider: Provider }) {
  const { visit, isRequired } = props
  return (
    <section class="card" aria-labelledby="required">
      <h2 id="required">Who may still use a password</h2>
      <p>
        {isRequired
          ? 'Only sign-ins with the provider count here. Owners can also use their password with a second factor; the audit log shows it.'
          : 'Passwords count too. If you require the provider, only owners can still use a password, with a second factor.'}
      </p>
      <PostForm action={providerPath} token={visit.token}>
        <button name="action" value={isRequired ? 'free' : 'require'}>
          {isRequired ? 'Let passwords count' : 'Require the provider'}
        </button>
      </PostForm>
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
    return 'page' in made ? made.page : providerPage(visit, { form, problem: made.problem })
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
