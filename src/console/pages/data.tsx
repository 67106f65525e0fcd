import type { AnswerOf } from '../../api/routes/index.ts'
import { dataPath, filePath, memoryPath } from '../../contract/pages.ts'
import type { Json } from '../../policy/types.ts'
import {
  changedSince,
  Confirm,
  empty,
  Field,
  FileField,
  labelled,
  onceOf,
  Refused,
  Seen,
  Told,
  type Filled,
} from '../parts/form.tsx'
import { OnceField, PostForm } from '../parts/layout.tsx'
import { actions, Empty, Pager, Table } from '../parts/list.tsx'
import { Labels } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import { Value } from '../parts/values.tsx'
import { nothingDone } from '../parts/waiting.tsx'
import { OrganizationName, Words } from '../parts/words.tsx'
import { isAtLeast, organizationId, type Form, type PersonsVisit, type Result, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'

/* `/console/data`: the files and the memory of the organization, which members add, change and delete. */

type FileView = AnswerOf<'GET /files/{id}'>
type Entry = AnswerOf<'GET /memory'>['data'][number]

const labels = { file: 'File', labels: 'Labels', key: 'Key', value: 'Value' }

/** `GET /console/data` */
export async function dataPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const filled = labelled(given, labels, { name: 'file' })
  const cursors = {
    files: visit.query.get('files') ?? undefined,
    memory: visit.query.get('memory') ?? undefined,
  }
  const of = (cursor: string | undefined) => ({
    query: {
      organization_id: organizationId(visit),
      limit: '50',
      ...(cursor === undefined ? {} : { cursor }),
    },
  })
  const [files, memory] = await Promise.all([
    visit.api.call('GET /files', of(cursors.files)),
    visit.api.call('GET /memory', of(cursors.memory)),
  ])
  if (!files.ok) return problemPage(files, visit.place)
  if (!memory.ok) return problemPage(memory, visit.place)
  const isOf = (kind: string): Filled => (given.form?.get('action') === kind ? filled : { ...empty, labels })
  return {
    status: filled.problem?.status ?? 200,
    title: 'Files and memory',
    main: (
      <article class="page">
        <header class="headline">
          <h1>Files and memory</h1>
          <p class="quiet">
            <OrganizationName name={visit.person.organization?.name ?? ''} />
          </p>
          <p>What runs read and remember. Rules go by the labels.</p>
        </header>
        <Refused filled={filled} />
        <Told visit={visit} results={results} />
        <Files files={files.body.data} visit={visit} />
        <Pager
          path={dataPath}
          chosen={cursors}
          cursor="files"
          next={files.body.next_cursor}
          words={{ first: 'First files', next: 'More files' }}
        />
        <Upload visit={visit} filled={isOf('upload')} />
        <Memory entries={memory.body.data} visit={visit} />
        <Pager
          path={dataPath}
          chosen={cursors}
          cursor="memory"
          next={memory.body.next_cursor}
          words={{ first: 'First keys', next: 'More keys' }}
        />
        <NewValue visit={visit} filled={isOf('set')} />
      </article>
    ),
  }
}

const results = {
  upload: 'The file is kept. Runs can take it.',
  'delete-file': 'The file is deleted.',
  delete: 'The value is deleted. Its labels stay with the key.',
  set: 'The value is saved. Runs read it from now on.',
}

/** "12 bytes", "3.4 kB". */
export function sizeWords(bytes: number): string {
  if (bytes < 1_000) return `${bytes} bytes`
  const units = ['kB', 'MB', 'GB']
  const place = Math.min(Math.floor(Math.log10(bytes) / 3), units.length)
  return `${(bytes / 1_000 ** place).toLocaleString('en', { maximumFractionDigits: 1 })} ${units[place - 1]}`
}

const Files = ({ files, visit }: { files: readonly FileView[]; visit: PersonsVisit }) => (
  <section class="stack" aria-labelledby="files">
    <h2 id="files">Files</h2>
    {files.length === 0 ? (
      <Empty title="There is no file yet.">
        Upload one below, or when you start a run of a workflow that takes files.
      </Empty>
    ) : (
      <Table
        label="Files"
        head={['File', 'Labels', 'Uploaded', 'Last run', actions]}
        rows={files.map((file) => fileRow(file, visit))}
      />
    )}
  </section>
)

const fileRow = (file: FileView, { token, now }: PersonsVisit) => [
  <>
    <a href={filePath(file.id)}>
      <Words text={file.name} most={200} />
    </a>{' '}
    <span class="quiet small">{sizeWords(file.size)}</span>
  </>,
  <Labels labels={file.labels} />,
  <>
    <Time at={file.created_at} now={now} /> by <Words text={file.created_by_email} most={254} />
  </>,
  file.last_used_at === null ? 'none' : <Time at={file.last_used_at} now={now} />,
  <Confirm
    action={dataPath}
    token={token}
    value="delete-file"
    open="Delete …"
    explanation="New runs cannot take it any more. Runs that were started with it keep what they read."
    sure={`Delete ${file.name}`}
  >
    <input type="hidden" name="id" value={file.id} />
  </Confirm>,
]

const labelsHelp = 'Such as “pii”, with commas between them.'

const Upload = ({ visit, filled }: { visit: PersonsVisit; filled: Filled }) => (
  <PostForm action={dataPath} token={visit.token} class="card fill" enctype="multipart/form-data">
    <h3>Upload a file</h3>
    <OnceField />
    <FileField
      name="file"
      help="PDF, DOCX, XLSX, CSV or text, at most 25 MiB. Its text is kept, and not the file itself."
      filled={filled}
    />
    <Field name="labels" optional most={1_000} help={`Besides “internal”. ${labelsHelp}`} filled={filled} />
    <button name="action" value="upload" class="primary">
      Upload
    </button>
  </PostForm>
)

const Memory = ({ entries, visit }: { entries: readonly Entry[]; visit: PersonsVisit }) => (
  <section class="stack" aria-labelledby="memory">
    <h2 id="memory">Memory</h2>
    {entries.length === 0 ? (
      <Empty title="Nothing is remembered yet.">
        A step with the tool memory_set remembers a value under a key, and so does the form below.
      </Empty>
    ) : (
      <Table
        label="Memory"
        head={['Key', 'Size', 'Labels', 'By', 'Written']}
        rows={entries.map((entry) => [
          <a href={memoryPath(entry.key)}>
            <Words text={entry.key} most={256} />
          </a>,
          sizeWords(entry.bytes),
          entry.labels.length === 0 ? <span class="quiet">–</span> : <Labels labels={entry.labels} />,
          <Words text={entry.updated_by_email} most={254} />,
          <Time at={entry.updated_at} now={visit.now} />,
        ])}
      />
    )}
  </section>
)

const valueHelp = 'JSON, such as {"limit": 5}. Anything else is kept as a text.'

const NewValue = ({ visit, filled }: { visit: PersonsVisit; filled: Filled }) => (
  <PostForm action={dataPath} token={visit.token} class="card fill">
    <h3>Remember a value</h3>
    <OnceField />
    <Field name="key" most={256} help="A present value of this key is replaced." filled={filled} />
    <Field name="value" rows={4} help={valueHelp} filled={filled} />
    <Field
      name="labels"
      id="value-labels"
      optional
      most={4_000}
      help={`${labelsHelp} Without any, the key keeps the labels that it has.`}
      filled={filled}
    />
    <button name="action" value="set">
      Save the value
    </button>
  </PostForm>
)

/** `POST /console/data` */
export async function changeData(visit: PersonsVisit, form: Form): Promise<Shown> {
  const action = form.get('action') ?? ''
  const done = await changeOf(visit, form, action)
  if (!done.ok) return dataPage(visit, { form, problem: done })
  return { redirect: `${dataPath}?done=${action}` }
}

async function changeOf(visit: PersonsVisit, form: Form, action: string): Promise<Result<unknown>> {
  switch (action) {
    case 'upload':
      return visit.api.call('POST /files', {
        query: { organization_id: organizationId(visit) },
        body: { file: 'file', labels: [form.get('labels') ?? ''] },
        ...onceOf(form),
      })
    case 'delete-file':
      return visit.api.call('DELETE /files/{id}', { params: { id: form.get('id') ?? '' } })
    case 'set':
      return save(visit, form.get('key') ?? '', form, labelsIn(form))
  }
  return nothingDone
}

const labelsIn = (form: Form): string[] =>
  (form.get('labels') ?? '').split(/[\s,;]+/).filter((each) => each !== '')

/** Without labels, those of the key stay. */
function save(visit: PersonsVisit, key: string, form: Form, given: readonly string[]) {
  return visit.api.call('PUT /memory/{key}', {
    params: { key },
    query: { organization_id: organizationId(visit) },
    body: { value: valueIn(form.get('value') ?? ''), ...(given.length === 0 ? {} : { labels: [...given] }) },
  })
}

function valueIn(text: string): Json {
  try {
    return JSON.parse(text) as Json
  } catch {
    return text.replaceAll('\r\n', '\n')
  }
}

/** A longer value is changed by a run, or by the API. */
const mostEdited = 20_000

/** `GET /console/data/memory/:key` */
export async function memoryPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const filled = labelled(given, labels)
  const key = visit.params['key'] ?? ''
  const of = { params: { key }, query: { organization_id: organizationId(visit) } }
  const found = await visit.api.call('GET /memory/{key}', of)
  if (!found.ok) return problemPage(found, visit.place)
  const { value, labels: own, updated_at: at } = found.body
  // A text that reads like JSON stands in quotation marks, so that it comes back as a text.
  const text = typeof value === 'string' && valueIn(value) === value ? value : JSON.stringify(value, null, 2)
  return {
    status: filled.problem?.status ?? 200,
    title: key,
    main: (
      <article class="page medium">
        <header class="headline">
          <p>
            <a href={`${dataPath}#memory`}>Files and memory</a>
          </p>
          <h1>
            <Words text={key} most={256} />
          </h1>
          <p class="quiet">
            Written <Time at={at} now={visit.now} />
          </p>
          {own.length === 0 ? null : <Labels labels={own} most={100} />}
        </header>
        <Refused filled={filled} />
        <Told visit={visit} results={results} />
        <section class="card" aria-label="The value">
          <Value value={value} />
        </section>
        {text.length > mostEdited ? (
          <p class="quiet">It is too long to be changed here. A run changes it, or the API.</p>
        ) : (
          <PostForm action={memoryPath(key)} token={visit.token} class="card fill">
            <h2>Change it</h2>
            <Seen value={at} filled={filled} />
            <Field name="value" rows={6} value={text} help={valueHelp} filled={filled} />
            <Field
              name="labels"
              optional
              most={4_000}
              value={own.join(', ')}
              help={
                isAtLeast(visit, 'admin') ? labelsHelp : `${labelsHelp} Only an admin takes a label away.`
              }
              filled={filled}
            />
            <button name="action" value="set">
              Save the value
            </button>
          </PostForm>
        )}
        <Confirm
          action={memoryPath(key)}
          token={visit.token}
          value="delete"
          open="Delete the value …"
          explanation="Runs that read this key get no value. Its labels stay with the key, for the next value."
          sure="Delete the value"
        />
      </article>
    ),
  }
}

/** `POST /console/data/memory/:key` */
export async function changeMemory(visit: PersonsVisit, form: Form): Promise<Shown> {
  const key = visit.params['key'] ?? ''
  const of = { params: { key }, query: { organization_id: organizationId(visit) } }
  if (form.get('action') === 'delete') {
    const deleted = await visit.api.call('DELETE /memory/{key}', of)
    return deleted.ok
      ? { redirect: `${dataPath}?done=delete` }
      : memoryPage(visit, { form, problem: deleted })
  }
  const read = await visit.api.call('GET /memory/{key}', of)
  const refused = read.ok ? changedSince(form, read.body.updated_at) : read
  if (refused !== null) return memoryPage(visit, { form, problem: refused })
  const body = { value: valueIn(form.get('value') ?? ''), labels: labelsIn(form) }
  const saved = await visit.api.call('PUT /memory/{key}', { ...of, body })
  return saved.ok ? { redirect: `${memoryPath(key)}?done=set` } : memoryPage(visit, { form, problem: saved })
}
