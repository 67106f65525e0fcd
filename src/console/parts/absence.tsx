import type { AnswerOf, BodyOf } from '../../api/routes/index.ts'
import { accountPath } from '../../contract/pages.ts'
import { wallTime } from '../../policy/builtins.ts'
import { readTime } from '../../steps/wait.ts'
import type { Form, Organization, PersonsVisit } from '../visit.ts'
import { Field, type Filled } from './form.tsx'
import { PostForm } from './layout.tsx'
import { Moment, zoneWords } from './time.tsx'
import { Words } from './words.tsx'

export type Absence = AnswerOf<'GET /me/absence'>['absence']

/** For the row of a member: "away until …, DEPUTY decides". */
export function AwayNote({ absence, now }: { absence: Absence; now: Date }) {
  if (absence === null) return null
  const { from, until, deputy } = absence
  return (
    <p class="small">
      Away{' '}
      {new Date(from) <= now ? null : (
        <>
          from <Moment at={from} />{' '}
        </>
      )}
      until <Moment at={until} />, <Words text={deputy.email} most={254} /> decides
    </p>
  )
}

/** When the person is away, and who decides in their place. */
export function Away(props: {
  readonly visit: PersonsVisit
  readonly organization: Organization
  readonly absence: Absence
  readonly filled: Filled
}) {
  const { visit, organization, absence, filled } = props
  const zone = visit.person.user.time_zone
  const hidden = <input type="hidden" name="organization_id" value={organization.id} />
  const when = (name: 'from' | 'until') => (
    <Field
      name={name}
      label={`${filled.labels?.[name] ?? name} (${zoneWords(zone ?? 'UTC')})`}
      type="datetime-local"
      value={absence === null ? '' : inZone(absence[name], zone)}
      filled={filled}
    />
  )
  return (
    <section class="card" aria-labelledby="away">
      <h2 id="away">
        Away from <Words text={organization.name} most={100} />
      </h2>
      {absence === null ? (
        <p>Say when you are away: your deputy is asked then, and decides what you could decide.</p>
      ) : (
        <p class="note">
          You are away from <Moment at={absence.from} /> until <Moment at={absence.until} />.{' '}
          <Words text={absence.deputy.email} /> decides what you could decide, except what they asked for or
          wrote themselves.
        </p>
      )}
      <PostForm action={accountPath} token={visit.token} class="fill">
        {hidden}
        {when('from')}
        {when('until')}
        <Field
          name="deputy"
          type="email"
          most={320}
          value={absence?.deputy.email ?? ''}
          help="A person of the organization, whatever their role. They get your right to decide, and use it as themselves: not on what they asked for, or on workflows that they wrote."
          filled={filled}
        />
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

/** For a field `datetime-local`, which shows the clock of the zone. */
const inZone = (time: string, zone: string | null): string =>
  new Date(wallTime(new Date(time), zone ?? 'UTC')).toISOString().slice(0, 16)

/** What the form sends, as the API takes it. The route refuses what is no time. */
export function absenceOf(form: Form, zone: string | null): BodyOf<'PUT /me/absence'> {
  const time = (name: string): string => {
    const given = form.get(name) ?? ''
    return readTime(given, zone ?? 'UTC')?.toISOString() ?? given
  }
  return { from: time('from'), until: time('until'), deputy: (form.get('deputy') ?? '').trim() }
}
