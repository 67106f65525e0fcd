import type { AnswerOf } from '../../api/routes/index.ts'
import { homePath, peoplePath, providerPath } from '../../contract/pages.ts'
import { mostInvited } from '../../contract/plan-limits.ts'
import { AwayNote } from '../parts/absence.tsx'
import {
  Confirm,
  empty,
  Field,
  labelled,
  onceOf,
  Refused,
  Select,
  Told,
  type Filled,
} from '../parts/form.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { actions, chosenOf, Empty, Pager, Search, Table } from '../parts/list.tsx'
import { Badge } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import { nothingDone } from '../parts/waiting.tsx'
import { capital, OrganizationName, Words } from '../parts/words.tsx'
import {
  organizationId,
  type Form,
  type Organization,
  type PersonsVisit,
  type Problem,
  type Result,
  type Shown,
} from '../visit.ts'
import { KeptMails, problemPage } from './plain.tsx'
import { changeServiceAccounts, ServiceAccounts, serviceAccountsOf } from './service-accounts.tsx'

/* `/console/people`: members and invitations, for owners. */

type Member = AnswerOf<'GET /organizations/{id}/members'>['data'][number]
type Invitation = AnswerOf<'GET /organizations/{id}/invitations'>['data'][number]

const perPage = '50'

const roles = ['viewer', 'member', 'admin', 'owner'] as const
const roleWords = {
  viewer: 'Viewer: sees runs',
  member: 'Member: starts runs, changes workflows and files',
  admin: 'Admin: decides, writes rules',
  owner: 'Owner: does everything',
} as const
const roleOptions = roles.map((role) => [role, roleWords[role]] as const)

/** `GET /console/people` */
export async function peoplePage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const filled = labelled(given, { addresses: 'Addresses', name: 'Name' }, { emails: 'addresses' })
  const { organization } = visit.person
  const refused = organization === null ? notHere : whyNot(organization)
  if (refused !== null || organization === null) return problemPage(refused ?? notHere, visit.place)
  const listed = { params: { id: organization.id } }
  const chosen = chosenOf(visit.query, ['search'])
  const [members, invitations, accounts] = await Promise.all([
    visit.api.call('GET /organizations/{id}/members', {
      ...listed,
      query: { ...pageOf(visit, 'members'), ...chosen },
    }),
    visit.api.call('GET /organizations/{id}/invitations', { ...listed, query: pageOf(visit, 'invitations') }),
    serviceAccountsOf(visit, organization.id),
  ])
  if (!members.ok) return problemPage(members, visit.place)
  return {
    status: filled.problem?.status ?? 200,
    title: 'People',
    main: (
      <article class="page">
        <header class="headline">
          <h1>People</h1>
          <p class="quiet">
            <OrganizationName name={organization.name} />
          </p>
          <p>
            <a href={providerPath}>Company sign-in</a>
          </p>
        </header>
        <Refused filled={filled} />
        <Told visit={visit} results={results.members} />
        <section class="stack" aria-labelledby="members">
          <h2 id="members">Members</h2>
          <Search path={peoplePath} label="Name or address" chosen={chosen} />
          {members.body.data.length === 0 ? (
            <Empty title="No member has this in their name or address.">
              Search for another part, or <a href={peoplePath}>show all members</a>.
            </Empty>
          ) : (
            <Table
              label="Members"
              head={['Person', 'Role', 'Second factor', 'Slack', actions]}
              rows={members.body.data.map((member) => memberRow(member, visit))}
            />
          )}
          <Pages visit={visit} name="members" next={members.body.next_cursor} />
        </section>
        <Invite visit={visit} filled={filled} />
        {invitations.ok ? <Invitations visit={visit} page={invitations.body} /> : null}
        <Told visit={visit} results={results.accounts} />
        <ServiceAccounts visit={visit} organization={organization} accounts={accounts} filled={filled} />
      </article>
    ),
  }
}

const notHere: Problem = { status: 403, code: 'insufficient_role', message: 'you are no member' }

/** null for owners of organizations that have members. */
function whyNot({ role, personal }: Organization): Problem | null {
  if (personal) return { ...notHere, message: 'your personal organization has one member: switch to another' }
  return role === 'owner' ? null : { ...notHere, message: 'only owners see and change who is a member' }
}

function pageOf({ query }: PersonsVisit, name: 'members' | 'invitations') {
  const cursor = query.get(name)
  return { limit: perPage, ...(cursor === null ? {} : { cursor }) }
}

function Pages(props: { visit: PersonsVisit; name: 'members' | 'invitations'; next: string | null }) {
  const { visit, name, next } = props
  const cursor = visit.query.get(name) ?? undefined
  const words = { first: `First ${name}`, next: `More ${name}` }
  const chosen = { ...chosenOf(visit.query, ['search']), [name]: cursor }
  return <Pager path={peoplePath} chosen={chosen} cursor={name} next={next} words={words} />
}

/** In the section to which the address leads. */
const results = {
  members: {
    role: 'The role is changed. It holds at once, everywhere.',
    unlink: 'The company sign-in is unlinked. The next one with the same address links again.',
    remove: 'The person is no member any more. Their keys and sessions here are refused.',
    withdraw: 'The invitation is withdrawn. Its link does not work any more.',
  },
  invitations: {
    invite: 'The invitations are on their way. People join when they accept, at the link in the mail.',
    resend: 'A new mail is on its way. The link in the earlier one does not work any more.',
  },
  accounts: {
    'service-create': 'The service account is made. Give it a key.',
    'service-role': 'Name and role are saved. The role holds at once, everywhere.',
    'service-delete': 'The service account is deleted. Its keys are refused.',
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, string>>>>

function memberRow(member: Member, visit: PersonsVisit) {
  const {
    user_id: id,
    email,
    name,
    role,
    second_factor: hasFactor,
    slack_account: slack,
    slack_problem: failed,
    company_sign_in: isLinked,
  } = member
  const isSelf = id === visit.person.user.id
  const hidden = <input type="hidden" name="user_id" value={id} />
  return [
    <>
      <Words text={name} most={100} /> {isSelf ? <Badge tone="off" word="You" /> : null}
      <br />
      <span class="quiet small">
        <Words text={email} most={254} />
      </span>
      <AwayNote absence={member.absence} now={visit.now} />
    </>,
    capital(role),
    hasFactor ? <Badge tone="good" word="On" /> : <Badge tone="warn" word="None" />,
    slack === null ? (
      <span class="quiet">not linked</span>
    ) : (
      <>
        <code>{slack}</code>
        {failed === null ? null : (
          <>
            {' '}
            <Badge tone="bad" word={`Fails: ${failed}`} />
          </>
        )}
      </>
    ),
    <details>
      <summary class="button">
        Change<span class="unseen">{` ${email}`}</span>
      </summary>
      <div class="note stack">
        <PostForm action={peoplePath} token={visit.token} class="fill">
          {hidden}
          <Select name="role" id={`role-${id}`} label="Role" options={roleOptions} value={role} />
          <button name="action" value="role">
            Save the role
          </button>
        </PostForm>
        {isLinked ? (
          <Confirm
            action={peoplePath}
            token={visit.token}
            value="unlink"
            open="Unlink the company sign-in …"
            explanation="Sign-ins with the provider end. The next person of the provider with this address is linked."
            sure="Unlink it"
          >
            {hidden}
          </Confirm>
        ) : null}
        <Confirm
          action={peoplePath}
          token={visit.token}
          value="remove"
          open={isSelf ? 'Leave …' : 'Remove …'}
          explanation={
            isSelf
              ? 'You see nothing of this organization any more, and your keys here are refused.'
              : 'The person sees nothing of this organization any more, and their keys here are refused.'
          }
          sure={isSelf ? 'Leave the organization' : 'Remove from the organization'}
        >
          {hidden}
        </Confirm>
      </div>
    </details>,
  ]
}

function Invite(props: { visit: PersonsVisit; filled: Filled }) {
  const { visit, filled } = props
  return (
    <section class="card" aria-labelledby="invite">
      <h2 id="invite">Invite people</h2>
      <PostForm action={peoplePath} token={visit.token} class="fill">
        <OnceField />
        <Field
          name="addresses"
          rows={3}
          most={mostInvited * 260}
          help={`One in each line, or with commas between them; at most ${mostInvited}.`}
          filled={filled}
        />
        <Select name="role" label="Role" options={roleOptions} value="member" filled={filled} />
        <button class="primary" name="action" value="invite">
          Send the invitations
        </button>
      </PostForm>
      <KeptMails folder={visit.mailFolder} />
    </section>
  )
}

function Invitations(props: { visit: PersonsVisit; page: AnswerOf<'GET /organizations/{id}/invitations'> }) {
  const { visit, page } = props
  const open = page.data.filter(({ status }) => status === 'pending' || status === 'expired')
  return (
    <section class="stack" aria-labelledby="invitations">
      <h2 id="invitations">Open invitations</h2>
      <Told visit={visit} results={results.invitations} />
      {open.length === 0 ? (
        <Empty title="Nobody is invited now.">Invite them in the form above.</Empty>
      ) : (
        <Table
          label="Open invitations"
          head={['Address', 'Role', 'Invited', 'Ends', actions]}
          rows={open.map((invitation) => invitationRow(invitation, visit))}
        />
      )}
      <Pages visit={visit} name="invitations" next={page.next_cursor} />
    </section>
  )
}

function invitationRow(invitation: Invitation, { token, now }: PersonsVisit) {
  const { id, email, role, status, created_at: at, expires_at: end } = invitation
  return [
    <Words text={email} most={254} />,
    capital(role),
    <Time at={at} now={now} />,
    status === 'expired' ? <Badge tone="off" word="Expired" /> : <Time at={end} now={now} />,
    <PostForm action={peoplePath} token={token} class="links">
      <OnceField />
      <input type="hidden" name="invitation" value={id} />
      <input type="hidden" name="addresses" value={email} />
      <input type="hidden" name="role" value={role} />
      <button name="action" value="resend">
        Send again<span class="unseen">{` to ${email}`}</span>
      </button>
      {status === 'expired' ? null : (
        <button class="danger" name="action" value="withdraw">
          Withdraw<span class="unseen">{` the one to ${email}`}</span>
        </button>
      )}
    </PostForm>,
  ]
}

/** `POST /console/people` */
export async function changePeople(visit: PersonsVisit, form: Form): Promise<Shown> {
  const id = organizationId(visit)
  const action = form.get('action') ?? ''
  if (action === 'invite' || action === 'resend') {
    const filled = await inviteAll(visit, form, id)
    if (filled.problem === null) return { redirect: `${peoplePath}?done=${action}#invitations` }
    if (action === 'invite') return peoplePage(visit, filled)
    const { problem } = filled
    const message = problem.details?.[0]?.message ?? problem.message
    return peoplePage(visit, { form: null, problem: { ...problem, message, details: [] } })
  }
  if (action.startsWith('service-')) {
    const changed = await changeServiceAccounts(visit, form, id)
    const typed = action === 'service-create' ? form : null
    return changed.ok
      ? { redirect: `${peoplePath}?done=${action}#service-accounts` }
      : peoplePage(visit, { form: typed, problem: changed })
  }
  const done = await changeOf(visit, form, id)
  if (!done.ok) return peoplePage(visit, { form: null, problem: done })
  const isLeaving = action === 'remove' && form.get('user_id') === visit.person.user.id
  return { redirect: isLeaving ? homePath : `${peoplePath}?done=${action}` }
}

function changeOf({ api }: PersonsVisit, form: Form, id: string): Promise<Result<unknown>> {
  const member = { params: { id, user: form.get('user_id') ?? '' } }
  const role = roles.find((each) => each === form.get('role'))
  switch (form.get('action')) {
    case 'role':
      if (role === undefined) break
      return api.call('PATCH /organizations/{id}/members/{user}', { ...member, body: { role } })
    case 'unlink':
      return api.call('DELETE /organizations/{id}/members/{user}/sign-in', member)
    case 'remove':
      return api.call('DELETE /organizations/{id}/members/{user}', member)
    case 'withdraw': {
      const params = { id, invitation: form.get('invitation') ?? '' }
      return api.call('DELETE /organizations/{id}/invitations/{invitation}', { params })
    }
  }
  return Promise.resolve(nothingDone)
}

/** Also those of `Eve Berg <eve@example.com>`. Upper and lower case are the same. */
const addressesIn = (text: string): string[] => [
  ...new Set(
    text
      .split(/[\n,;]+/)
      .flatMap((part) => /<([^<>]*)>\s*$/.exec(part)?.[1] ?? part.split(/\s+/))
      .filter((each) => each !== '')
      .map((each) => each.toLowerCase()),
  ),
]

/** Addresses that were refused stay in the form. An invitation to the same address replaces the earlier one. */
async function inviteAll({ api }: PersonsVisit, form: Form, id: string): Promise<Filled> {
  const addresses = addressesIn(form.get('addresses') ?? '')
  const role = roles.find((each) => each === form.get('role')) ?? 'member'
  if (addresses.length === 0 || addresses.length > mostInvited) {
    const message = `Write one to ${mostInvited} addresses.`
    return { form, problem: { ...nothingDone, message, details: [{ path: 'addresses', message }] } }
  }
  const sent = await api.call('POST /organizations/{id}/invite', {
    params: { id },
    body: { emails: addresses, role },
    ...onceOf(form),
  })
  if (!sent.ok) return { form, problem: sent }
  const { refused } = sent.body
  if (refused.length === 0) return { form, problem: null }
  const message = `${addresses.length - refused.length} of ${addresses.length} invitations were sent: look at the addresses`
  const kept = new URLSearchParams([...form].filter(([name]) => name !== 'addresses'))
  kept.set('addresses', refused.map(({ email }) => email).join('\n'))
  const details = refused.map(({ email, message: why }) => ({
    path: 'addresses',
    message: `\`${email}\`: ${why}`,
  }))
  return { form: kept, problem: { ...nothingDone, message, details } }
}
