import type { AnswerOf } from '../../api/routes/index.ts'
import { accountPath } from '../../contract/pages.ts'
import type { Form, Organization, PersonsVisit } from '../visit.ts'
import { PostForm } from './layout.tsx'
import { Time } from './time.tsx'
import { Words } from './words.tsx'

export type Absence = AnswerOf<'GET /me/absence'>['absence']

/** When the person is away, and who decides in their place. `form`: what was refused. */
export function Away(props: {
  readonly visit: PersonsVisit
  readonly organization: Organization
  readonly absence: Absence
  readonly form: Form | null
}) {
  const { visit, organization, absence, form } = props
  const hidden = <input type="hidden" name="organization_id" value={organization.id} />
  const deputy = form?.get('deputy') ?? absence?.deputy.email ?? ''
  return (
    <section class="card" aria-labelledby="away">
      <h2 id="away">
        Away from <Words text={organization.name} most={100} />
      </h2>
      {absence === null ? (
        <p>Say when you are away: your deputy is asked then, and decides what you could decide.</p>
      ) : (
        <p class="note">
          You are away from <Time at={absence.from} now={visit.now} exact /> until{' '}
          <Time at={absence.until} now={visit.now} exact />. <Words text={absence.deputy.email} /> decides in
          your place.
        </p>
      )}
      <PostForm action={accountPath} token={visit.token} class="fill">
        {hidden}
        <When name="from" label="From (UTC)" value={form?.get('from') ?? local(absence?.from)} />
        <When name="until" label="Until (UTC)" value={form?.get('until') ?? local(absence?.until)} />
        <div class="stack">
          <label for="deputy">Your deputy’s mail address</label>
          <input
            id="deputy"
            name="deputy"
            type="email"
            required
            maxlength={320}
            autocomplete="off"
            spellcheck={false}
            aria-describedby="deputy-help"
            value={deputy}
          />
          <p id="deputy-help" class="quiet small">
            A member of the organization. They vote as themselves, and never on what they asked for.
          </p>
        </div>
        <button name="action" value="away">
          Name the deputy
        </button>
      </PostForm>
      {absence === null ? null : (
        <PostForm action={accountPath} token={visit.token}>
          {hidden}
          <p class="quiet small">If you end it, the votes that your deputy gave for you count no more.</p>
          <button class="danger" name="action" value="back">
            End it
          </button>
        </PostForm>
      )}
    </section>
  )
}

/** For a field `datetime-local`. */
const local = (time: string | undefined): string => time?.slice(0, 16) ?? ''

/** What such a field sends, as the API takes it. */
export const asUtc = (given: string | null): string => `${given?.slice(0, 16) ?? ''}:00Z`

const When = ({ name, label, value }: { name: string; label: string; value: string }) => (
  <div class="stack">
    <label for={name}>{label}</label>
    <input id={name} name={name} type="datetime-local" required value={value} />
  </div>
)
