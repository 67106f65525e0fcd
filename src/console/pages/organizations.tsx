import type { ComponentChild } from 'preact'
import { organizationsPath, peoplePath, settingsPath } from '../../contract/pages.ts'
import { empty, Field, labelled, onceOf, Refused, type Filled } from '../parts/form.tsx'
import { PostForm } from '../parts/layout.tsx'
import { actions } from '../parts/list.tsx'
import { ShortList } from '../parts/short-list.tsx'
import { Badge } from '../parts/state.tsx'
import { capital, Words } from '../parts/words.tsx'
import { hasRole, type Form, type Organization, type PersonsVisit, type Shown } from '../visit.ts'

/* `/console/organizations`: those of the person, how to switch between them, and a form that makes a new one. */

/** `GET /console/organizations` */
export function organizationsPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const filled = labelled(given, { name: 'Name of the new organization' })
  const { organizations } = visit.person
  const made = organizations.find(({ id }) => id === visit.query.get('made'))
  return Promise.resolve({
    status: filled.problem?.status ?? 200,
    title: 'Your organizations',
    main: (
      <article class="page">
        <header class="headline">
          <h1>Your organizations</h1>
          <p>
            Each has its own people, rules, workflows and limits. The pages show one organization at a time.
          </p>
        </header>
        <Refused filled={filled} />
        <ShortList
          id="organizations"
          title="Where you are a member"
          about={made === undefined ? null : <Made made={made} visit={visit} />}
          none={{
            title: 'You are in no organization.',
            words: 'Make one here, or ask an owner of one for an invitation.',
          }}
          head={['Name', 'Your role', 'Plan', 'You decide for', actions]}
          rows={organizations.map((each) => rowOf(each, visit))}
          form={{
            action: organizationsPath,
            token: visit.token,
            title: 'New organization',
            button: ['organization', 'Make the organization'],
          }}
        >
          <Field
            name="name"
            most={200}
            help="Such as your company or team. You become its owner, and invite the others."
            filled={filled}
          />
        </ShortList>
      </article>
    ),
  })
}

const Made = ({ made, visit }: { made: Organization; visit: PersonsVisit }) => (
  <div class="note stack" role="status">
    <p>
      <Words text={made.name} /> is made, and you are its owner. Switch to it to invite people.
    </p>
    <Switch to={made} token={visit.token} />
  </div>
)

function rowOf(own: Organization, { person, token }: PersonsVisit): readonly ComponentChild[] {
  const { id, name, role, plan, personal, frozen, groups } = own
  const isShown = id === person.organization?.id
  return [
    <>
      <Words text={name} /> {personal ? <Badge tone="off" word="Yours alone" /> : null}
      {frozen === null ? null : <Badge tone="hold" word="Frozen" />}
    </>,
    capital(role),
    isShown && hasRole(role, 'admin') ? (
      <a href={`${settingsPath}#limits`}>{capital(plan)}</a>
    ) : (
      capital(plan)
    ),
    groups.length === 0 ? <span class="quiet">no group</span> : <Words text={groups.join(', ')} />,
    isShown ? (
      <>
        <Badge tone="go" word="You see this one" />
        {role === 'owner' ? (
          <>
            {' '}
            <a href={peoplePath}>Its people</a>
          </>
        ) : null}
      </>
    ) : (
      <Switch to={own} token={token} />
    ),
  ]
}

const Switch = ({ to: { id, name }, token }: { to: Organization; token: string }) => (
  <PostForm action="/console/organization" token={token}>
    <input type="hidden" name="organization_id" value={id} />
    <button>
      Switch<span class="unseen">{` to ${name}`}</span>
    </button>
  </PostForm>
)

/** `POST /console/organizations` */
export async function makeOrganization(visit: PersonsVisit, form: Form): Promise<Shown> {
  const made = await visit.api.call('POST /organizations', {
    body: { name: (form.get('name') ?? '').trim() },
    ...onceOf(form),
  })
  return made.ok
    ? { redirect: `${organizationsPath}?made=${made.body.id}` }
    : organizationsPage(visit, { form, problem: made })
}
