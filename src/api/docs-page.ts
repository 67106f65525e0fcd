import { accessOf, splitKey } from './access.ts'
import { statusOf } from './errors.ts'
import { escape, htmlPage } from './html-page.ts'
import type { Route } from './route.ts'
import { fieldsOf, typeText, type Schema } from './schema-text.ts'

/** The parts of the OpenAPI document that the page shows. */
export interface Described {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}
interface Operation {
  readonly parameters?: readonly { name: string; in: string; required?: boolean; schema: Schema }[]
  readonly requestBody?: { readonly content: Readonly<Record<string, { schema: Schema }>> }
  readonly responses: Readonly<Record<string, { content?: Readonly<Record<string, { schema: Schema }>> }>>
}

/** A listing of every route with its parameters, body and answers: one page, no script, nothing from elsewhere. */
export function docsPage(routes: readonly Route[], document: Described): string {
  const tags = [...new Set(routes.map((route) => route.tag))]
  const anchor = (tag: string) => tag.toLowerCase().replaceAll(/[^a-z]+/g, '-')
  const contents = tags.map((tag) => `<a href="#${anchor(tag)}">${escape(tag)}</a>`).join(' · ')
  const sections = tags.map((tag) => {
    const entries = routes.filter((route) => route.tag === tag).map((route) => entry(route, document))
    return `<h2 id="${anchor(tag)}">${escape(tag)}</h2>\n${entries.join('\n')}`
  })
  return htmlPage(
    'Countersign API',
    `<p>Every path answers below <code>/api/v1</code>, below <code>/v1</code> and bare. Send
<code>Authorization: Bearer &lt;API key&gt;</code>, and JSON. Whole schemas are in <a href="openapi.json">openapi.json</a>.
Lists take <code>limit</code> and <code>cursor</code> and answer <code>{"data": [...], "next_cursor"}</code>. A
<code>POST</code> takes an <code>Idempotency-Key</code>: the same key and body get the first answer again.</p>
<p>${contents} · <a href="#errors">Errors</a></p>
${sections.join('\n')}
<h2 id="errors">Errors</h2>
<p>Every error is <code>{"error": {"code", "message", "details": [{"path", "message"}]}, "meta": {"request_id"}}</code>.</p>
${table(['Status', 'Codes'], statuses())}`,
  )
}

function statuses(): string[][] {
  const codes = Object.entries(statusOf)
  return [...new Set(codes.map(([, status]) => status))]
    .sort((a, b) => a - b)
    .map((status) => [
      String(status),
      codes
        .filter(([, its]) => its === status)
        .map(([code]) => `<code>${code}</code>`)
        .join(' '),
    ])
}

function entry(route: Route, { paths, components }: Described): string {
  const access = accessOf(route.key)
  const { method, path } = splitKey(route.key)
  const operation = paths[path]?.[method.toLowerCase()]
  const needs = access.public
    ? 'no key'
    : `${access.scope === null ? 'any key' : `scope <code>${access.scope}</code>`}, role ${access.role}`
  const parameters = (operation?.parameters ?? []).filter((each) => each.in !== 'header')
  const body = operation?.requestBody?.content['application/json']?.schema
  return `<details><summary><code>${method} ${escape(path)}</code> ${escape(route.summary)} <span class="scope">(${needs})</span></summary>
${route.description === undefined ? '' : `<p>${escape(route.description)}</p>`}
${fieldTable(
  'Parameter',
  parameters.map((each) => ({
    name: each.name,
    required: each.required === true,
    type: typeText(each.schema),
  })),
)}
${body === undefined ? '' : fieldTable('Body', fieldsOf(body, components.schemas))}
<p>Answers ${answers(operation)}</p></details>`
}

function fieldTable(
  heading: string,
  fields: readonly { name: string; required: boolean; type: string }[],
): string {
  if (fields.length === 0) return ''
  const rows = fields.map(({ name, required, type }) => [
    `<code>${escape(name)}</code>`,
    escape(type),
    required ? 'required' : '',
  ])
  return table([heading, 'Type', ''], rows)
}

function answers(operation: Operation | undefined): string {
  const known = Object.entries(operation?.responses ?? {}).filter(([status]) => status !== 'default')
  return known
    .map(([status, { content }]) => {
      const schema = content?.['application/json']?.schema
      return `${status}${schema === undefined ? '' : ` <code>${escape(typeText(schema))}</code>`}`
    })
    .join(', ')
}

function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[], tag: string) =>
    `<tr>${cells.map((cell) => `<${tag}>${cell}</${tag}>`).join('')}</tr>`
  return `<table><thead>${line(headings, 'th')}</thead><tbody>\n${rows.map((row) => line(row, 'td')).join('\n')}\n</tbody></table>`
}
