import type { AnswerOf } from '../../api/routes/index.ts'
import type { ComponentChild } from 'preact'
import {
  accountPath,
  confirmPath,
  organizationsPath,
  ownSessionsPath,
  resetPath,
  secondFactorPath,
} from '../../contract/pages.ts'
import { Words } from '../parts/words.tsx'
import { Badge } from '../parts/state.tsx'
import {
  hasRole,
  type Form,
  type Me,
  type Organization,
  type PersonsVisit,
  type Result,
  type Shown,
} from '../visit.ts'
import { problemPage } from './plain.tsx'
import { absenceOf, Away, type Absence } from '../parts/absence.tsx'
import { empty, labelled, Refused, Select, type Filled } from '../parts/form.tsx'
import { PostForm } from '../parts/layout.tsx'
import { distance, Time, zoneWords } from '../parts/time.tsx'
import { nothingDone } from '../parts/waiting.tsx'

type MailState = AnswerOf<'GET /me/notifications'>
type SlackState = Pick<Organization, 'slack_account' | 'slack_claim' | 'slack_problem'>

const labels = {
  from: 'From',
  until: 'Until',
  deputy: 'Your deputy’s mail address',
  external_id: 'Your member id in Slack',
  code: 'Code from Slack',
  time_zone: 'Your time zone',
}

export async function accountPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const filled = labelled(given, labels)
  /** What the person has typed, for the form that they have sent. */
  const sent = (action: string): Filled =>
    filled.form?.get('action') === action ? filled : { ...filled, form: null }
  const me = await visit.api.call('GET /me')
  if (!me.ok) return problemPage(me, visit.place)
  const { person, token, now } = visit
  const { user } = person
  const organization = person.organization?.personal === false ? person.organization : null
  const slack = me.body.organizations.find(({ id }) => id === organization?.id)
  const mails = await mailsIn(visit, organization)
  const absence = await absenceIn(visit, organization)
  return {
    status: filled.problem?.status ?? 200,
    title: 'Your account',
    main: (
      <article class="page medium">
        <header class="headline">
          <h1>Your account</h1>
          <p class="quiet">
            <Words text={user.name} most={100} /> · <Words text={user.email} />
          </p>
        </header>
        <Refused filled={filled} />
        <SignIn me={me.body} />
        {organization === null || slack === undefined ? null : (
          <SlackAccount
            organization={organization}
            slack={slack}
            filled={sent('link')}
            token={token}
            now={now}
          />
        )}
        {organization === null ? null : (
          <Away visit={visit} organization={organization} absence={absence} filled={sent('away')} />
        )}
        {organization === null || mails === null ? null : (
          <MailChoice
            organization={organization}
            mails={mails}
            token={token}
            isSaved={visit.query.get('saved') === 'mails'}
          />
        )}
        <p>
          <a href={organizationsPath}>Your organizations</a>
        </p>
      </article>
    ),
  }
}

/** Whether approvals can come to them. */
const decides = ({ role, groups, deputy_for: absent }: Organization): boolean =>
  hasRole(role, 'admin') || groups.length > 0 || absent.length > 0

/** null for people who cannot decide approvals, and if the settings cannot be read. */
async function mailsIn({ api }: PersonsVisit, organization: Organization | null): Promise<MailState | null> {
  if (organization === null || !decides(organization)) return null
  const query = { organization_id: organization.id }
  const found = await api.call('GET /me/notifications', { query })
  return found.ok ? found.body : null
}

async function absenceIn({ api }: PersonsVisit, organization: Organization | null): Promise<Absence> {
  if (organization === null) return null
  const found = await api.call('GET /me/absence', { query: { organization_id: organization.id } })
  return found.ok ? found.body.absence : null
}

function SignIn({ me: { user } }: { readonly me: Me }) {
  return (
    <section class="card" aria-labelledby="signing-in">
      <h2 id="signing-in">Signing in</h2>
      <p class="badges">
        {user.email_verified ? (
          <Badge tone="good" word="Address confirmed" />
        ) : (
          <Badge tone="warn" word="Address not confirmed" />
        )}
        {user.second_factor ? (
          <Badge tone="good" word="Second factor is on" />
        ) : (
          <Badge tone="warn" word="No second factor" />
        )}
      </p>
      <p class="links">
        {user.email_verified ? null : <a href={confirmPath}>Confirm your address</a>}
        <a href={`${secondFactorPath}?return=${encodeURIComponent(accountPath)}`}>
          Second factor: passkeys and codes
        </a>
        <a href={ownSessionsPath}>Where you are signed in</a>
        <a href={resetPath}>Set a new password by mail</a>
      </p>
    </section>
  )
}

/** `POST /console/account`: changes what is the person's own. */
export async function changeAccount(visit: PersonsVisit, form: Form): Promise<Shown> {
  const organization = visit.person.organizations.find(({ id }) => id === form.get('organization_id'))
  const account = (form.get('external_id') ?? '').trim().toUpperCase()
  const change = organization === undefined ? null : changeOf(visit, organization, form, account)
  if (change === null) return accountPage(visit, { form: null, problem: nothingDone })
  const done = await change
  const action = form.get('action') ?? ''
  if (done.ok) return { redirect: `${accountPath}${places[action] ?? '#slack'}` }
  const mistake = done.status === 422 ? mistakes[action] : undefined
  return accountPage(visit, {
    form,
    problem: mistake === undefined ? done : { ...done, message: mistake, details: [] },
  })
}

const places: Readonly<Record<string, string>> = {
  mails: '?saved=mails#mails',
  away: '#away',
  back: '#away',
}

const mistakes: Readonly<Record<string, string>> = {
  link: 'That is no member id: it looks like U012ABCDEF.',
  prove: 'That is not the code. After five wrong ones, have a new one sent.',
}

function changeOf(
  { api, person }: PersonsVisit,
  { id }: Organization,
  form: Form,
  account: string,
): Promise<Result<unknown>> | null {
  const key = 'organizations/{id}/members/{user}/accounts/slack'
  const params = { id, user: person.user.id }
  switch (form.get('action')) {
    case 'link':
      return api.call(`PUT /${key}`, { params, body: { external_id: account } })
    case 'prove': {
      const code = (form.get('code') ?? '').replaceAll(/\s/g, '')
      return api.call(`PUT /${key}`, { params, body: { external_id: account, code } })
    }
    case 'unlink':
      return api.call(`DELETE /${key}`, { params })
    case 'mails': {
      const delay = form.get('delay')
      const isOff = delay === noMails
      // The previous delay applies again when the mails are turned on.
      const zone = form.get('time_zone')
      const body = {
        mail: !isOff,
        delay_seconds: Number(isOff ? form.get('before') : delay),
        ...(zone === null ? {} : { time_zone: zone === '' ? null : zone }),
      }
      return api.call('PUT /me/notifications', { query: { organization_id: id }, body })
    }
    case 'away':
      return api.call('PUT /me/absence', {
        query: { organization_id: id },
        body: absenceOf(form, person.user.time_zone),
      })
    case 'back':
      return api.call('DELETE /me/absence', { query: { organization_id: id } })
    default:
      return null
  }
}

const zones = Intl.supportedValuesOf('timeZone').filter((zone) => zone !== 'UTC')
const noMails = 'none'
const delays = [0, 300, 600, 1_800, 3_600, 14_400, 86_400]

function MailChoice(props: {
  readonly organization: Organization
  readonly mails: MailState
  readonly token: string
  readonly isSaved: boolean
}) {
  const { organization, mails, token, isSaved } = props
  const chosen = mails.mail ? String(mails.delay_seconds) : noMails
  const offered = [...new Set([...delays, mails.delay_seconds])].toSorted((a, b) => a - b)
  return (
    <section class="card" aria-labelledby="mails">
      <h2 id="mails">
        Mails from <Words text={organization.name} most={100} />
      </h2>
      {isSaved ? (
        <p class="note" role="status">
          Your choice is saved.
        </p>
      ) : null}
      <PostForm action={accountPath} token={token} class="fill">
        <input type="hidden" name="organization_id" value={organization.id} />
        <input type="hidden" name="before" value={String(mails.delay_seconds)} />
        <div class="stack">
          <label for="delay">Mail me what nobody has decided</label>
          <select id="delay" name="delay" aria-describedby="delay-help">
            {offered.map((seconds) => (
              <option value={String(seconds)} selected={chosen === String(seconds)}>
                {seconds === 0 ? 'at once' : `after ${distance(seconds * 1_000)}`}
              </option>
            ))}
            <option value={noMails} selected={chosen === noMails}>
              never
            </option>
          </select>
          <p id="delay-help" class="quiet small">
            A reminder comes before an approval expires. “Never” turns that off too.
          </p>
        </div>
        <Select
          name="time_zone"
          label="Your time zone"
          options={[
            ['', 'UTC'],
            // A zone can have several names, and the list has one of them.
            ...[...new Set([...zones, ...(mails.time_zone === null ? [] : [mails.time_zone])])]
              .toSorted()
              .map((zone) => [zone, zoneWords(zone)] as const),
          ]}
          value={mails.time_zone ?? ''}
          help="The pages and the mails of all your organizations tell times in it."
        />
        <button name="action" value="mails">
          Save
        </button>
      </PostForm>
    </section>
  )
}

/** The account of an admin or owner is linked by a test message. Other members must enter a code from Slack. */
function SlackAccount(props: {
  readonly organization: Organization
  readonly slack: SlackState
  readonly filled: Filled
  readonly token: string
  readonly now: Date
}) {
  const { organization, slack, token } = props
  const hidden = <input type="hidden" name="organization_id" value={organization.id} />
  return (
    <section class="card" aria-labelledby="slack">
      <h2 id="slack">
        Slack in <Words text={organization.name} most={100} />
      </h2>
      <p>
        {slack.slack_account === null ? (
          'No Slack account is linked to you. You get no messages there about what waits for you.'
        ) : (
          <>
            Messages about what waits for you go to <code>{slack.slack_account}</code>.
          </>
        )}
      </p>
      {slack.slack_problem === null ? null : (
        <p class="alert" role="alert">
          The newest message there failed: <code>{slack.slack_problem}</code>. Link the account again, or tell
          an owner that Slack does not take our messages.
        </p>
      )}
      {slack.slack_claim?.needs_code === false ? (
        <p class="note" role="status">
          {slack.slack_claim.problem === null ? (
            <>
              A test message is on its way to <code>{slack.slack_claim.external_id}</code>. The account is
              linked when it has arrived: load this page again.
            </>
          ) : (
            <>
              The test message to <code>{slack.slack_claim.external_id}</code> failed:{' '}
              <code>{slack.slack_claim.problem}</code>. Check the member id.
            </>
          )}
        </p>
      ) : null}
      {slack.slack_claim?.needs_code !== true ? null : (
        <CodeForm claim={slack.slack_claim} hidden={hidden} token={token} now={props.now} />
      )}
      <IdForm {...props} hidden={hidden} />
      {slack.slack_account === null ? null : (
        <PostForm action={accountPath} token={token}>
          {hidden}
          <button class="danger" name="action" value="unlink">
            Unlink
          </button>
        </PostForm>
      )}
    </section>
  )
}

interface Inside {
  readonly hidden: ComponentChild
  readonly token: string
}

function CodeForm(props: Inside & { claim: NonNullable<SlackState['slack_claim']>; now: Date }) {
  const { claim, hidden, token, now } = props
  return (
    <PostForm action={accountPath} token={token} class="fill">
      {hidden}
      <input type="hidden" name="external_id" value={claim.external_id} />
      <div class="stack">
        <label for="code">Code from Slack</label>
        <input
          id="code"
          name="code"
          required
          inputmode="numeric"
          maxlength={11}
          pattern={'[0-9]{4}[ ]?[0-9]{4}'}
          autocomplete="one-time-code"
          aria-describedby="code-help"
        />
        <p id="code-help" class="quiet small">
          A message with eight digits goes to <code>{claim.external_id}</code> in Slack. The code ends{' '}
          <Time at={claim.expires_at} now={now} />. If none arrives, check the member ID.
        </p>
      </div>
      <button class="primary" name="action" value="prove">
        Link it
      </button>
    </PostForm>
  )
}

function IdForm(props: Inside & { organization: Organization; slack: SlackState; filled: Filled }) {
  const {
    organization,
    slack: { slack_account: account, slack_claim: claim },
    filled,
    hidden,
    token,
  } = props
  const isAtOnce = hasRole(organization.role, 'admin')
  const isFirst = account === null && claim === null
  return (
    <PostForm action={accountPath} token={token} class="fill">
      {hidden}
      <div class="stack">
        <label for="external_id">{isFirst ? 'Your member id in Slack' : 'Another member id'}</label>
        <input
          id="external_id"
          name="external_id"
          required
          maxlength={21}
          pattern={'[UWuw][A-Za-z0-9]{7,20}'}
          autocomplete="off"
          autocapitalize="characters"
          spellcheck={false}
          aria-describedby="external-help"
          value={filled.form?.get('external_id')?.toUpperCase() ?? ''}
        />
        <p
          id="external-help"
          class="quiet small"
        >{`It looks like U012ABCDEF. In Slack, open your profile, then the menu with three dots, then “Copy member ID”.${
          isAtOnce ? '' : ' You get a code there, which you type in here.'
        }`}</p>
      </div>
      <button class={isFirst ? 'primary' : ''} name="action" value="link">
        {isAtOnce ? 'Link it' : claim === null ? 'Send the code' : 'Send a new code'}
      </button>
    </PostForm>
  )
}
