import { dataPath, filePath } from '../../contract/pages.ts'
import { Confirm, Refused } from '../parts/form.tsx'
import { RunState, Labels } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import { Facts } from '../parts/values.tsx'
import { nothingDone } from '../parts/waiting.tsx'
import { Words } from '../parts/words.tsx'
import type { AnswerOf } from '../../api/routes/index.ts'
import type { Form, PersonsVisit, Problem, Shown } from '../visit.ts'
import { sizeWords } from './data.tsx'
import { problemPage } from './plain.tsx'
import { runsPath } from './runs.tsx'

/* `/console/data/files/:id`: a file of the organization, and which runs took it. */

type FileView = AnswerOf<'GET /files/{id}'>
type Taken = AnswerOf<'GET /files/{id}/runs'>

/** `GET /console/data/files/:id` */
export async function filePage(visit: PersonsVisit, problem: Problem | null = null): Promise<Shown> {
  const params = { id: visit.params['id'] ?? '' }
  const [found, taken] = await Promise.all([
    visit.api.call('GET /files/{id}', { params }),
    visit.api.call('GET /files/{id}/runs', { params }),
  ])
  if (!found.ok) return problemPage(found, visit.place)
  const file = found.body
  return {
    status: problem?.status ?? 200,
    title: file.name,
    main: (
      <article class="page medium">
        <header class="headline">
          <p>
            <a href={`${dataPath}#files`}>Files and memory</a>
          </p>
          <h1>
            <Words text={file.name} most={200} />
          </h1>
          <Labels labels={file.labels} most={100} />
        </header>
        <Refused filled={{ form: null, problem }} />
        <About file={file} visit={visit} />
        <Runs taken={taken.ok ? taken.body : null} visit={visit} />
        <Confirm
          action={filePath(file.id)}
          token={visit.token}
          value="delete"
          open="Delete the file …"
          explanation="New runs cannot take it any more. Runs that were started with it keep what they read."
          sure="Delete the file"
        />
      </article>
    ),
  }
}

const About = ({ file, visit: { now } }: { file: FileView; visit: PersonsVisit }) => (
  <section class="card" aria-label="About the file">
    <Facts
      facts={[
        ['Size', sizeWords(file.size)],
        ['Kind', <code>{file.media_type}</code>],
        ['Text', `${sizeWords(file.text_bytes)}${file.has_rows ? ', and runs can go over its rows' : ''}`],
        [
          'Uploaded',
          <>
            <Time at={file.created_at} now={now} /> by <Words text={file.created_by_email} most={254} />
          </>,
        ],
        ['SHA-256', <code>{file.sha256}</code>],
        ['Id', <code>{file.id}</code>],
      ]}
    />
    <p class="quiet small">
      Its labels stay as they are, because runs have read it with them: upload it again to give it others.
    </p>
  </section>
)

/** null: it could not be read. */
function Runs({ taken, visit: { now } }: { taken: Taken | null; visit: PersonsVisit }) {
  if (taken === null) return null
  const { runs, is_all: isAll } = taken
  return (
    <section class="card stack" aria-labelledby="runs">
      <h2 id="runs">Runs that took it</h2>
      {runs.length === 0 && isAll ? <p class="quiet">No run has taken it yet.</p> : null}
      <ul class="rows">
        {runs.map(({ id, workflow_name: name, status, created_at: at }) => (
          <li class="row split">
            <span>
              <a href={`${runsPath}/${id}`}>
                <Words text={name ?? 'A run'} most={120} />
              </a>
              , <Time at={at} now={now} />
            </span>
            <RunState status={status} />
          </li>
        ))}
      </ul>
      {isAll ? null : (
        <p class="quiet small">
          {runs.length === 0
            ? 'None was found: only the 2,000 newest runs before its last use are searched.'
            : 'These are the newest. There may be others.'}
        </p>
      )}
    </section>
  )
}

/** `POST /console/data/files/:id` */
export async function changeFile(visit: PersonsVisit, form: Form): Promise<Shown> {
  if (form.get('action') !== 'delete') return filePage(visit, nothingDone)
  const deleted = await visit.api.call('DELETE /files/{id}', { params: { id: visit.params['id'] ?? '' } })
  return deleted.ok ? { redirect: `${dataPath}?done=delete-file` } : filePage(visit, deleted)
}
