import type { ComponentChildren } from 'preact'
import { apiAreaPath, docsPath, documentPath } from '../../contract/pages.ts'
import { areaSlug, plainText, type DocumentHead, type Operation, type Parameter } from '../documents.ts'
import { chosenOf, Empty, Search, Table } from '../parts/list.tsx'
import { filled, Markdown } from '../parts/markdown.tsx'
import { Sentence } from '../parts/words.tsx'
import { organizationId, type PersonsVisit, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'

/* `/console/docs`: the guides, and the reference of the API by its areas. */

const missing = { status: 404, code: 'not_found', message: 'there is no such document' } as const

/** `GET /console/docs` */
export function docsPage(visit: PersonsVisit): Promise<Shown> {
  const chosen = chosenOf(visit.query, ['search'])
  return Promise.resolve({
    status: 200,
    title: 'Documents',
    main: (
      <article class="page">
        <header class="headline">
          <h1>Documents</h1>
          <p class="quiet">
            The guides of this version. Their examples have the address and the id of your organization.
          </p>
        </header>
        <Search path={docsPath} label="Words of a title" chosen={chosen} />
        {chosen.search === undefined ? (
          <Contents visit={visit} />
        ) : (
          <Found found={foundIn(visit, chosen.search)} />
        )}
      </article>
    ),
  })
}

function Contents({ visit: { documents } }: { visit: PersonsVisit }) {
  return (
    <>
      {documents.shelves.map(({ title, documents: all }) => (
        <section class="stack" aria-labelledby={areaSlug(title)}>
          <h2 id={areaSlug(title)}>{title}</h2>
          <ul class="contents">
            {all.map((head) => (
              <li>
                <a href={documentPath(head.name)}>{head.title}</a>
              </li>
            ))}
          </ul>
        </section>
      ))}
      <section class="stack" aria-labelledby="api">
        <h2 id="api">The API</h2>
        <ul class="contents">
          {[...areasOf(documents.operations)].map(([area, own]) => (
            <li>
              <a href={apiAreaPath(areaSlug(area))}>{area}</a> <span class="quiet small">{own.length}</span>
            </li>
          ))}
        </ul>
      </section>
    </>
  )
}

function areasOf(operations: readonly Operation[]): Map<string, Operation[]> {
  const areas = new Map<string, Operation[]>()
  for (const each of operations) areas.set(each.area, [...(areas.get(each.area) ?? []), each])
  return new Map([...areas].toSorted(([one], [other]) => one.localeCompare(other, 'en')))
}

interface Place {
  readonly path: string
  readonly title: string
  /** Where it stands. */
  readonly within: string
}

const mostFound = 50

/** Documents first, then their parts, then operations of the API. */
export function foundIn({ documents }: PersonsVisit, sought: string): readonly Place[] {
  const words = sought.toLowerCase().split(/\s+/)
  const has = (text: string) => words.every((word) => text.toLowerCase().includes(word))
  const heads = documents.shelves.flatMap(({ title, documents: all }) => all.map((head) => ({ head, title })))
  const titles = heads.filter(({ head }) => has(head.title))
  const parts = heads.flatMap(({ head }) =>
    head.headings
      .filter(({ depth, text }) => depth > 1 && has(text))
      .map(({ text, anchor }) => ({
        path: `${documentPath(head.name)}#${anchor}`,
        title: text,
        within: head.title,
      })),
  )
  const operations = documents.operations.filter(({ summary, path, method }) =>
    has(`${method} ${path} ${summary}`),
  )
  return [
    ...titles.map(({ head, title }) => ({ path: documentPath(head.name), title: head.title, within: title })),
    ...parts,
    ...operations.map(({ id, area, method, path, summary }) => ({
      path: `${apiAreaPath(areaSlug(area))}#${id}`,
      title: plainText(summary),
      within: `${method} ${path}`,
    })),
  ].slice(0, mostFound)
}

const Found = ({ found }: { found: readonly Place[] }) =>
  found.length === 0 ? (
    <Empty title="No title has these words.">
      Try another word, or <a href={docsPath}>show all documents</a>.
    </Empty>
  ) : (
    <ul class="inbox">
      {found.map(({ path, title, within }) => (
        <li class="item">
          <div class="item-words">
            <a class="item-link" href={path}>
              {title}
            </a>
            <p class="quiet small">{within}</p>
          </div>
        </li>
      ))}
    </ul>
  )

function Paper(props: {
  title: string
  parts: readonly { readonly id: string; readonly text: string }[]
  children: ComponentChildren
}) {
  const { title, parts, children } = props
  return (
    <article class="page">
      <header class="headline">
        <p>
          <a href={docsPath}>All documents</a>
        </p>
        <h1>{title}</h1>
      </header>
      <div class="paper">
        {parts.length < 2 ? null : (
          <nav aria-label="On this page">
            <p class="quiet small">On this page</p>
            <ul>
              {parts.map(({ id, text }) => (
                <li>
                  <a href={`#${id}`}>{text}</a>
                </li>
              ))}
            </ul>
          </nav>
        )}
        <div class="prose">{children}</div>
      </div>
    </article>
  )
}

/** `GET /console/docs/{document}` and `GET /console/docs/reference/{document}` */
export function documentPage(visit: PersonsVisit, shelf = ''): Promise<Shown> {
  const found = visit.documents.read(`${shelf}${visit.params['document'] ?? ''}`)
  if (found === null) return Promise.resolve(problemPage(missing, visit.place))
  const { head, tokens } = found
  const served = new Set(
    visit.documents.shelves.flatMap(({ documents }) => documents.map(({ name }) => name)),
  )
  const shown = {
    name: head.name,
    isServed: (name: string) => served.has(name),
    base: visit.base,
    organizationId: organizationId(visit),
  }
  return Promise.resolve({
    status: 200,
    title: head.title,
    main: (
      <Paper title={head.title} parts={partsOf(head)}>
        <Markdown tokens={tokens} shown={shown} />
      </Paper>
    ),
  })
}

const partsOf = ({ headings }: DocumentHead) =>
  headings.filter(({ depth }) => depth === 2).map(({ anchor, text }) => ({ id: anchor, text }))

/** `GET /console/docs/api/{area}` */
export function apiAreaPage(visit: PersonsVisit): Promise<Shown> {
  const { area: slug = '' } = visit.params
  const own = visit.documents.operations.filter(({ area }) => areaSlug(area) === slug)
  const [first] = own
  if (first === undefined) return Promise.resolve(problemPage(missing, visit.place))
  return Promise.resolve({
    status: 200,
    title: `API: ${first.area}`,
    main: (
      <Paper
        title={`API: ${first.area}`}
        parts={own.map(({ id, summary }) => ({ id, text: plainText(summary) }))}
      >
        {own.map((operation) => (
          <OperationPart operation={operation} visit={visit} />
        ))}
      </Paper>
    ),
  })
}

function OperationPart({ operation, visit }: { operation: Operation; visit: PersonsVisit }) {
  const { id, method, path, summary, description, scopes, role, parameters, body, example } = operation
  const needs = [
    scopes.length === 0 ? null : `a key with ${scopes.map((each) => `\`${each}\``).join(' and ')}`,
    role === null ? null : `the role ${role} or higher`,
  ].filter((each) => each !== null)
  return (
    <div class="stack operation">
      <h2 id={id}>{plainText(summary)}</h2>
      <p>
        <code>{`${method} ${path}`}</code>
      </p>
      {needs.length === 0 ? null : (
        <p class="quiet">
          <Sentence text={`Needs ${needs.join(', and ')}.`} />
        </p>
      )}
      {description === null ? null : (
        <p>
          <Sentence text={description} />
        </p>
      )}
      <Parameters label={`Parameters of ${id}`} rows={parameters} title="Parameter" />
      {body === null ? null : <Parameters label={`Body of ${id}`} rows={body} title="Field of the body" />}
      <pre>
        <code>{curlOf(operation, visit)}</code>
      </pre>
      {example.answer === undefined ? null : (
        <details>
          <summary>
            An answer<span class="unseen">{` to ${id}`}</span>
          </summary>
          <pre>
            <code>{ofReader(example.answer, visit)}</code>
          </pre>
        </details>
      )}
    </div>
  )
}

const Parameters = ({ label, rows, title }: { label: string; rows: readonly Parameter[]; title: string }) =>
  rows.length === 0 ? null : (
    <Table
      label={label}
      head={[title, 'Kind', 'What it says']}
      rows={rows.map(({ name, place, isNeeded, type, description }) => [
        <>
          <code>{name}</code>
          {isNeeded ? <span class="quiet small"> needed</span> : null}
        </>,
        `${type}${place === 'path' || place === 'body' ? '' : `, in the ${place}`}`,
        <Sentence text={description} />,
      ])}
    />
  )

/** The organization of the examples of openapi.json. */
const exampleId = /org_[0-9A-Z]{26}/g

const ofReader = (value: unknown, visit: PersonsVisit): string =>
  JSON.stringify(value, null, 2).replaceAll(exampleId, (found) => organizationId(visit) || found)

/** The key is never written. */
function curlOf({ method, path, example: { body } }: Operation, visit: PersonsVisit): string {
  const { base } = visit
  const own = path
    .replace('/organizations/{id}', '/organizations/$ORG')
    .replaceAll(/\{(\w+)\}/g, (_, name: string) => `$${name.toUpperCase()}`)
  const address = filled(`${base}/api/v1${own}`, { base, organizationId: organizationId(visit) })
  return [
    `curl${method === 'GET' ? '' : ` -X ${method}`} "${address}"`,
    `  -H "Authorization: Bearer $KEY"`,
    ...(body === undefined
      ? []
      : [
          `  -H 'Content-Type: application/json'`,
          `  -d '${ofReader(body, visit).replaceAll("'", "'\\''")}'`,
        ]),
  ].join(' \\\n')
}
