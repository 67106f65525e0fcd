import { accountPath } from '../../contract/pages.ts'
import type { Organization, PersonsVisit } from '../visit.ts'
import { Field, type Filled } from './form.tsx'
import { PostForm } from './layout.tsx'
import { actions } from './list.tsx'
import { ShortList } from './short-list.tsx'
import { Badge } from './state.tsx'
import { capital, Words } from './words.tsx'

/** The organizations of a person, how to switch between them, and a form that makes a new one. */
export function Organizations({ visit, filled }: { visit: PersonsVisit; filled: Filled }) {
  const { organizations } = visit.person
  const made = organizations.find(({ id }) => id === visit.query.get('made'))
  return (
    <ShortList
      id="organizations"
      title="Your organizations"
      about={
        made === undefined ? null : (
          <p class="note" role="status">
            <Words text={made.name} /> is made, and you are its owner. The pages show one organization at a
            time: press “Switch” to see this one. Then you can invite people.
          </p>
        )
      }
      none={{
        title: 'You are in no organization.',
        words: 'Make one here, or ask an owner of one for an invitation.',
      }}
      head={['Name', 'Your role', actions]}
      rows={organizations.map((each) => rowOf(each, visit))}
      form={{
        action: accountPath,
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
  )
}

function rowOf({ id, name, role, personal }: Organization, { person, token }: PersonsVisit) {
  return [
    <>
      <Words text={name} /> {personal ? <Badge tone="off" word="Yours alone" /> : null}
    </>,
    capital(role),
    id === person.organization?.id ? (
      <Badge tone="go" word="You see this one" />
    ) : (
      <PostForm action="/console/organization" token={token}>
        <input type="hidden" name="organization_id" value={id} />
        <button>
          Switch<span class="unseen">{` to ${name}`}</span>
        </button>
      </PostForm>
    ),
  ]
}
