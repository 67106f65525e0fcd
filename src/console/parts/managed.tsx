import type { AnswerOf } from '../../api/routes/index.ts'
import { organizationId, type Form, type PersonsVisit, type Result } from '../visit.ts'
import { Confirm, onceOf } from './form.tsx'
import { Time } from './time.tsx'
import { Words } from './words.tsx'

/* What comes from a file of a repository: the file changes it, and no form here. */

export type Managed = AnswerOf<'GET /organizations/{id}/groups/{group}'>['managed_by']

/** Only such an address becomes a link. */
function webAddress(repository: string): URL | null {
  const url = URL.parse(repository)
  return url?.protocol === 'https:' && url.username === '' && url.password === '' ? url : null
}

function Repository({ name }: { name: string }) {
  const url = webAddress(name)
  if (url === null) return <Words text={name} most={200} />
  const short = `${url.host === 'github.com' ? '' : url.host}${url.pathname}`.replace(/^\//, '')
  return (
    <a href={url.href} rel="noreferrer">
      <Words text={short.replace(/\.git$/, '') || url.host} most={200} />
    </a>
  )
}

const Source = ({ managed: { path, repository } }: { managed: NonNullable<Managed> }) => (
  <>
    {path === null ? (
      'a file'
    ) : (
      <code>
        <Words text={path} most={300} />
      </code>
    )}
    {repository === null ? null : (
      <>
        {' in '}
        <Repository name={repository} />
      </>
    )}
  </>
)

/** For settings, in place of the form that changes them. */
export const SettingsFrom = ({ managed }: { managed: NonNullable<Managed> }) => (
  <p>
    {'The settings come from '}
    <Source managed={managed} />. Change them there.
  </p>
)

/** For its row in a list. */
export const FromFile = ({ managed }: { managed: Managed }) =>
  managed === null ? null : (
    <span class="quiet small">
      {' from '}
      <Source managed={managed} />
    </span>
  )

/** For its page, in place of the forms that change it. */
export function ManagedNote(props: {
  readonly what: string
  readonly managed: Managed
  readonly visit: PersonsVisit
  /** Where the form that releases it is sent; null for who may not. */
  readonly action: string | null
}) {
  const { what, managed, visit, action } = props
  if (managed === null) return null
  return (
    <section class="note stack" aria-labelledby="managed">
      <h2 id="managed">It comes from a file</h2>
      <p>
        {`${what} comes from `}
        <Source managed={managed} />
        {managed.commit === null ? null : (
          <>
            {', commit '}
            <code>
              <Words text={managed.commit} most={12} />
            </code>
          </>
        )}
        {', applied '}
        <Time at={managed.applied_at} now={visit.now} />. Change it there.
      </p>
      {action === null ? null : (
        <Confirm
          action={action}
          token={visit.token}
          value="release"
          open="Change it here instead …"
          explanation="Then people change it here again. Take it out of the file too: else the next application of the files takes it over."
          sure="Change it here from now on"
        />
      )}
    </section>
  )
}

export const released = 'It no longer comes from a file: people change it here.'

/** What the form of the note asks for. */
export const release = (
  visit: PersonsVisit,
  object: { readonly kind: 'rule' | 'group' | 'workflow' | 'organization'; readonly name: string },
  form: Form,
): Promise<Result<unknown>> =>
  visit.api.call('POST /organizations/{id}/release', {
    params: { id: organizationId(visit) },
    body: { objects: [object] },
    ...onceOf(form),
  })
