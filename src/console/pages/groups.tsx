import type { AnswerOf } from '../../api/routes/index.ts'
import { groupsPath, rulesPath } from '../../contract/pages.ts'
import { seatsOf } from '../../policy/seats.ts'
import { accessIn, AgentAccess } from '../parts/agent-access.tsx'
import { AwayNote } from '../parts/absence.tsx'
import { ChangeWaits, waitingChanges, WaitingNote } from '../parts/change.tsx'
import { Confirm, empty, Field, labelled, onceOf, Refused, Told, type Filled } from '../parts/form.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { groupSizes, lackingGroups, NobodyCan, RuleLinks } from '../parts/rule.tsx'
import { FromFile, ManagedNote, release, released } from '../parts/managed.tsx'
import { actions, Empty, Pager, Table } from '../parts/list.tsx'
import { Time } from '../parts/time.tsx'
import { nothingDone } from '../parts/waiting.tsx'
import { capital, OrganizationName, Words } from '../parts/words.tsx'
import {
  isAtLeast,
  organizationId,
  waitsFor,
  type Form,
  type PersonsVisit,
  type Result,
  type RuleView,
  type Shown,
} from '../visit.ts'
import { problemPage } from './plain.tsx'

/* `/console/groups`: admins see who is in which group, and owners change it. */

type GroupDetail = AnswerOf<'GET /organizations/{id}/groups/{group}'>

const mayChange = (visit: PersonsVisit): boolean => isAtLeast(visit, 'owner')

const labels = { name: 'Name', description: 'What it is for', members: 'Members', member: 'Address' }

/** `GET /console/groups` */
export async function groupsPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const filled = labelled(given, labels)
  const cursor = visit.query.get('cursor') ?? undefined
  const listed = await visit.api.call('GET /organizations/{id}/groups', {
    params: { id: organizationId(visit) },
    query: { limit: '50', ...(cursor === undefined ? {} : { cursor }) },
  })
  if (!listed.ok) return problemPage(listed, visit.place)
  const { data, next_cursor: next } = listed.body
  const [sizes, rules, changes] = await Promise.all([
    groupSizes(visit),
    newestRules(visit),
    waitingChanges(visit),
  ])
  const lacking = new Set(rules.flatMap((rule) => lackingGroups(rule, sizes)))
  return {
    status: filled.problem?.status ?? 200,
    title: 'Groups',
    main: (
      <article class="page">
        <header class="headline">
          <h1>Groups</h1>
          <p class="quiet">
            <OrganizationName name={visit.person.organization?.name ?? ''} />
          </p>
          <p>A rule can ask a group for approval. Its members decide, whatever their role is.</p>
        </header>
        <Refused filled={filled} />
        <Told visit={visit} results={results} />
        {data.length === 0 ? (
          <Empty title="There is no group yet.">An owner makes one, and then rules can name it.</Empty>
        ) : (
          <Table
            label="Groups"
            head={['Name', 'What it is for', 'Members', 'Made']}
            rows={data.map((group) => [
              <>
                <a href={`${groupsPath}/${group.id}`}>
                  <Words text={group.name} />
                </a>
                <ChangeWaits changes={changes.get(group.id)} />
                <FromFile managed={group.managed_by} />
              </>,
              group.description === '' ? (
                <span class="quiet">–</span>
              ) : (
                <Words text={group.description} most={300} />
              ),
              <>
                {group.member_count.toLocaleString('en')} {lacking.has(group.name) ? <NobodyCan /> : null}
              </>,
              <Time at={group.created_at} now={visit.now} />,
            ])}
          />
        )}
        <Pager
          path={groupsPath}
          chosen={{ cursor }}
          cursor="cursor"
          next={next}
          words={{ first: 'First groups', next: 'More groups' }}
        />
        {mayChange(visit) ? <NewGroup visit={visit} filled={filled} /> : onlyOwners}
      </article>
    ),
  }
}

const onlyOwners = <p class="quiet">An owner makes and changes groups.</p>

const results: Readonly<Record<string, string>> = {
  add: 'The person is in the group, and can decide what it decides.',
  remove: 'The person is not in the group any more. Their votes for it no longer count.',
  delete: 'The group is deleted.',
  save: 'The description is saved.',
  agents: 'Saved. It holds for the next call.',
  release: released,
}

const NewGroup = ({ visit, filled }: { visit: PersonsVisit; filled: Filled }) => (
  <section class="card" aria-labelledby="new">
    <h2 id="new">Make a group</h2>
    <PostForm action={groupsPath} token={visit.token} class="fill">
      <OnceField />
      <Field
        name="name"
        most={64}
        help="Lower-case letters, digits, - and _, such as finance. Rules name the group by it."
        filled={filled}
      />
      <Field
        name="members"
        rows={3}
        most={20_000}
        help="Addresses of members of the organization, one in each line."
        filled={filled}
      />
      <button class="primary" name="action" value="create">
        Make the group
      </button>
    </PostForm>
  </section>
)

/** `POST /console/groups` */
export async function createGroup(visit: PersonsVisit, form: Form): Promise<Shown> {
  const members = (form.get('members') ?? '').split(/[\s,;]+/).filter((each) => each !== '')
  const made = await visit.api.call('POST /organizations/{id}/groups', {
    params: { id: organizationId(visit) },
    body: { name: (form.get('name') ?? '').trim(), members },
    ...onceOf(form),
  })
  if (!made.ok) return groupsPage(visit, { form, problem: made })
  return { redirect: waitsFor(made.body) ?? `${groupsPath}/${made.body.id}` }
}

/** `GET /console/groups/:id` */
export async function groupPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const filled = labelled(given, labels)
  const read = await visit.api.call('GET /organizations/{id}/groups/{group}', {
    params: { id: organizationId(visit), group: visit.params['id'] ?? '' },
  })
  if (!read.ok) return problemPage(read, visit.place)
  const group = read.body
  const [rules, changes] = await Promise.all([rulesOf(visit, group.name), waitingChanges(visit)])
  const path = `${groupsPath}/${group.id}`
  const isChanged = mayChange(visit) && group.managed_by === null
  return {
    status: filled.problem?.status ?? 200,
    title: group.name,
    main: (
      <article class="page">
        <header class="headline">
          <p>
            <a href={groupsPath}>All groups</a>
          </p>
          <h1>
            <Words text={group.name} />
          </h1>
          {group.description === '' ? null : (
            <p>
              <Words text={group.description} most={2_000} />
            </p>
          )}
        </header>
        <Refused filled={filled} />
        <Told visit={visit} results={results} />
        <ManagedNote
          what="The group"
          managed={group.managed_by}
          visit={visit}
          action={mayChange(visit) ? path : null}
        />
        <WaitingNote changes={changes.get(group.id)} now={visit.now} />
        <section class="stack" aria-labelledby="members">
          <h2 id="members">Members</h2>
          {group.members.length === 0 ? (
            <Empty title="Nobody is in this group.">What it decides cannot be approved.</Empty>
          ) : (
            <Table
              label="Members"
              head={['Person', 'Role', 'In the group since', ...(isChanged ? [actions] : [])]}
              rows={group.members.map((member) => memberRow(member, group, visit))}
            />
          )}
        </section>
        <Rules rules={rules} />
        {isChanged ? <Change visit={visit} path={path} group={group} filled={filled} /> : null}
        {mayChange(visit) ? null : onlyOwners}
      </article>
    ),
  }
}

/** Those of the newest rules that ask the group. */
const rulesOf = async (visit: PersonsVisit, name: string): Promise<readonly RuleView[]> =>
  (await newestRules(visit)).filter((rule) =>
    seatsOf(rule).some((seat) => 'group' in seat && seat.group === name),
  )

async function newestRules(visit: PersonsVisit): Promise<readonly RuleView[]> {
  const listed = await visit.api.call('GET /organizations/{id}/rules', {
    params: { id: organizationId(visit) },
    query: { limit: '200' },
  })
  return listed.ok ? listed.body.data : []
}

const Rules = ({ rules }: { rules: readonly RuleView[] }) => (
  <section class="stack" aria-labelledby="rules">
    <h2 id="rules">What it decides</h2>
    {rules.length === 0 ? (
      <Empty title="No rule asks this group.">
        An admin or owner names it in <a href={rulesPath}>a rule</a>.
      </Empty>
    ) : (
      <RuleLinks rules={rules} />
    )}
  </section>
)

function memberRow(member: GroupDetail['members'][number], group: GroupDetail, visit: PersonsVisit) {
  const { user_id: id, email, role, added_at: at } = member
  return [
    <>
      <Words text={email} most={254} />
      <AwayNote absence={member.absence} now={visit.now} />
    </>,
    capital(role),
    <Time at={at} now={visit.now} />,
    ...(mayChange(visit) && group.managed_by === null
      ? [
          <PostForm action={`${groupsPath}/${group.id}`} token={visit.token} class="links">
            <OnceField />
            <input type="hidden" name="member" value={id} />
            <button name="action" value="remove" class="danger">
              Take out<span class="unseen">{` ${email}`}</span>
            </button>
          </PostForm>,
        ]
      : []),
  ]
}

function Change(props: { visit: PersonsVisit; path: string; group: GroupDetail; filled: Filled }) {
  const { visit, path, group, filled } = props
  return (
    <>
      <section class="card" aria-labelledby="add">
        <h2 id="add">Add a person</h2>
        <PostForm action={path} token={visit.token} class="fill">
          <OnceField />
          <Field
            name="member"
            type="email"
            most={254}
            help="Of a member of the organization."
            filled={filled}
          />
          <button class="primary" name="action" value="add">
            Add to the group
          </button>
        </PostForm>
      </section>
      <section class="card" aria-labelledby="agents">
        <h2 id="agents">Agents of its members</h2>
        <PostForm action={path} token={visit.token} class="fill">
          <AgentAccess whose="of a member" value={group.default_agent_access} filled={filled} />
          <button name="action" value="agents">
            Save
          </button>
        </PostForm>
      </section>
      <Confirm
        action={path}
        token={visit.token}
        value="delete"
        open="Delete the group …"
        explanation="Nobody can decide for it any more. A group that a rule names cannot be deleted."
        sure={`Delete the group ${group.name}`}
      />
    </>
  )
}

/** `POST /console/groups/:id` */
export async function changeGroup(visit: PersonsVisit, form: Form): Promise<Shown> {
  const action = form.get('action') ?? ''
  const done = await changeOf(visit, form, action)
  if (!done.ok) return groupPage(visit, { form, problem: done })
  const path = action === 'delete' ? groupsPath : `${groupsPath}/${visit.params['id'] ?? ''}`
  return { redirect: waitsFor(done.body) ?? `${path}?done=${action}` }
}

async function changeOf(visit: PersonsVisit, form: Form, action: string): Promise<Result<unknown>> {
  const { api } = visit
  const group = { id: organizationId(visit), group: visit.params['id'] ?? '' }
  const member = { params: { ...group, user: (form.get('member') ?? '').trim() } }
  switch (action) {
    case 'add':
      return api.call('PUT /organizations/{id}/groups/{group}/members/{user}', member)
    case 'remove':
      return api.call('DELETE /organizations/{id}/groups/{group}/members/{user}', member)
    case 'agents':
      return api.call('PATCH /organizations/{id}/groups/{group}', {
        params: group,
        body: { default_agent_access: accessIn(form) },
      })
    case 'delete':
      return api.call('DELETE /organizations/{id}/groups/{group}', { params: group })
    case 'release': {
      const read = await api.call('GET /organizations/{id}/groups/{group}', { params: group })
      return read.ok ? release(visit, { kind: 'group', name: read.body.name }, form) : read
    }
  }
  return nothingDone
}
