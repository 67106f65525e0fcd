import { docs } from '@googleapis/docs'
import { drive } from '@googleapis/drive'
import { z } from 'zod'
import { listOf } from '../kit/exchange.ts'
import { ToolError, type FinderOf, type ToolBody } from '../kit/executor.ts'
import { digestOf } from '../kit/marker.ts'
import { failures, fileIdAt, googleOf } from './client.ts'
import { tools } from './tools.ts'

/*
 * One upload to Drive makes the file with its text, its folder and the mark of the call. Drive does not let us choose
 * an id, so after a lost answer the document is found by its mark: a property that only this client of Google's APIs
 * sees.
 */

const { documents } = docs('v1')
const { files } = drive('v3')

const linkTo = (id: string): string => `https://docs.google.com/document/d/${id}/edit`

const aDocument = z.object({ documentId: z.string(), title: z.string().default(''), tabs: z.unknown() })

export const readDocument: ToolBody<'docs_read'> = async (call, context) => {
  const documentId = fileIdAt('document', call.params.document)
  const google = await googleOf(call, context, 'docs_read')
  const found = await google.read('docs', aDocument, (options) =>
    documents.get(
      {
        documentId,
        includeTabsContent: true,
        suggestionsViewMode: 'PREVIEW_WITHOUT_SUGGESTIONS',
        fields: documentFields,
      },
      options,
    ),
  )
  requireSame(documentId, found.documentId)
  const text = textOfTabs(found.tabs)
  if (text === null) throw failures.unreadable('again')
  return { output: { document_id: documentId, title: found.title, text, url: linkTo(documentId) } }
}

/** Rules have decided only about `asked`. */
export function requireSame(asked: string, got: string): void {
  if (asked === got) return
  throw new ToolError(
    'google_other_file',
    'Google answered with another file: give the id or the link of the file itself',
  )
}

const documentType = 'application/vnd.google-apps.document'
const property = 'countersign'
const made = z.object({ id: z.string() })

/** Google would fetch pictures from the hosts that a text names, which would learn what the links contain. */
const withoutPictures = (text: string): string => text.replaceAll('![', '[').replaceAll(/<(?=img\b)/gi, '< ')

export const createDocument: ToolBody<'docs_create'> = async (call, context) => {
  const { title, content, folder } = call.params
  const parents = folder === undefined ? {} : { parents: [fileIdAt('folder', folder)] }
  const google = await googleOf(call, context, 'docs_create')
  const requestBody = {
    name: title,
    mimeType: documentType,
    appProperties: { [property]: digestOf(call) },
    ...parents,
  }
  const media = { mimeType: 'text/markdown', body: withoutPictures(content) }
  await context.pointOfNoReturn()
  const { id } = await google.write('drive', made, (options) =>
    files.create({ requestBody, media, supportsAllDrives: true, fields: 'id' }, options),
  )
  return { output: { document_id: id, url: linkTo(id) } }
}

/** Without this check, any object would count as an empty list. */
const listKind = z.literal('drive#fileList')

const marked = z.object({
  kind: listKind,
  incompleteSearch: z.boolean().default(false),
  nextPageToken: z.string().optional(),
  files: z.array(made).max(100).default([]),
})

export const findDocument: FinderOf<'docs_create'> = async (call, context) => {
  const google = await googleOf(call, context, 'docs_create')
  const {
    incompleteSearch,
    nextPageToken,
    files: found,
  } = await google.read('drive', marked, (options) =>
    files.list(
      {
        q: `appProperties has { key='${property}' and value='${digestOf(call)}' }`,
        corpora: 'allDrives',
        includeItemsFromAllDrives: true,
        supportsAllDrives: true,
        pageSize: 10,
        fields: 'kind,incompleteSearch,nextPageToken,files(id)',
      },
      options,
    ),
  )
  const [first] = found
  if (first !== undefined) return { kind: 'done', output: { document_id: first.id, url: linkTo(first.id) } }
  // Further pages may follow an empty one, so it proves nothing.
  return { kind: incompleteSearch || nextPageToken !== undefined ? 'unclear' : 'absent' }
}

const foundFiles = z.object({
  kind: listKind,
  incompleteSearch: z.boolean().default(false),
  files: listOf(
    z.object({
      id: z.string(),
      name: z.string().default(''),
      mimeType: z.string().default(''),
      webViewLink: z.string().default(''),
      shortcutDetails: z
        .object({ targetId: z.string().optional(), targetMimeType: z.string().optional() })
        .optional(),
    }),
  ).default([]),
})

/** For Drive's query language. */
const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

export const searchDrive: ToolBody<'drive_search'> = async (call, context) => {
  const { query, limit = tools.drive_search.defaults.limit } = call.params
  const google = await googleOf(call, context, 'drive_search')
  const words = quoted(query)
  const listed = await google.read('drive', foundFiles, (options) =>
    files.list(
      {
        q: `(name contains ${words} or fullText contains ${words}) and trashed = false`,
        corpora: 'allDrives',
        includeItemsFromAllDrives: true,
        supportsAllDrives: true,
        pageSize: limit,
        fields:
          'kind,incompleteSearch,files(id,name,mimeType,webViewLink,shortcutDetails(targetId,targetMimeType))',
      },
      options,
    ),
  )
  return {
    output: {
      incomplete: listed.incompleteSearch,
      // Rules decide about the file to which a shortcut leads, so the output has its id.
      files: listed.files.slice(0, limit).map(({ id, name, mimeType, webViewLink, shortcutDetails }) => ({
        id: shortcutDetails?.targetId ?? id,
        name,
        media_type: shortcutDetails?.targetMimeType ?? mimeType,
        url: webViewLink,
      })),
    },
  }
}

/* `#` before headings, `-` before list items, `|` between cells. What is not as documented is left out. */

type Fields = Readonly<Record<string, unknown>>

const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
const itemsOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
const textIn = (value: unknown): string => (typeof value === 'string' ? value : '')

/** Google nests tables in tables, and tabs below tabs, less deeply. */
const mostDepth = 20

/** Google's parameter `fields` for so many levels of tabs. The editor makes at most three. */
const tabFields = (depth: number): string => {
  const own = 'tabProperties.title,documentTab.body.content(paragraph,table(tableRows(tableCells.content)))'
  return depth === 1 ? own : `${own},childTabs(${tabFields(depth - 1)})`
}
const documentFields = `documentId,title,tabs(${tabFields(5)})`

/** Null if it is nested deeper than any document of Google. */
function textOfTabs(tabs: unknown): string | null {
  const reader = new Reader()
  const isOne = itemsOf(tabs).length === 1 && itemsOf(fieldsOf(itemsOf(tabs)[0])['childTabs']).length === 0
  reader.tabs(tabs, isOne, 0)
  return reader.isTooDeep ? null : reader.lines.join('\n')
}

class Reader {
  readonly lines: string[] = []
  isTooDeep = false

  tabs(tabs: unknown, isOne: boolean, depth: number): void {
    if (depth > mostDepth) return void (this.isTooDeep = true)
    for (const each of itemsOf(tabs)) {
      const { tabProperties, documentTab, childTabs } = fieldsOf(each)
      if (!isOne) this.lines.push(`# ${textIn(fieldsOf(tabProperties)['title'])}`)
      this.content(fieldsOf(fieldsOf(documentTab)['body'])['content'], depth)
      this.tabs(childTabs, isOne, depth + 1)
    }
  }

  content(content: unknown, depth: number): void {
    if (depth > mostDepth) return void (this.isTooDeep = true)
    for (const each of itemsOf(content)) {
      const { paragraph, table } = fieldsOf(each)
      if (paragraph !== undefined) this.lines.push(lineOf(fieldsOf(paragraph)))
      for (const row of itemsOf(fieldsOf(table)['tableRows'])) this.#row(row, depth)
    }
  }

  #row(row: unknown, depth: number): void {
    const cells = itemsOf(fieldsOf(row)['tableCells']).map((cell) => {
      const inner = new Reader()
      inner.content(fieldsOf(cell)['content'], depth + 1)
      this.isTooDeep ||= inner.isTooDeep
      return inner.lines.join(' ').trim()
    })
    this.lines.push(`| ${cells.join(' | ')} |`)
  }
}

function lineOf({ elements, paragraphStyle, bullet }: Fields): string {
  const text = itemsOf(elements)
    .map((each) => elementText(fieldsOf(each)))
    .join('')
    .replace(/\n$/, '')
    // `\v` is a line break inside a paragraph.
    .replaceAll('\v', '\n')
  if (bullet !== undefined) {
    const level = Number(fieldsOf(bullet)['nestingLevel'] ?? 0)
    return `${'  '.repeat(Math.min(Math.max(level || 0, 0), 10))}- ${text}`
  }
  const style = textIn(fieldsOf(paragraphStyle)['namedStyleType'])
  const level = style === 'TITLE' ? 1 : Number(/^HEADING_([1-6])$/.exec(style)?.[1] ?? 0)
  return level === 0 || text === '' ? text : `${'#'.repeat(level)} ${text}`
}

function elementText({ textRun, person, richLink, dateElement }: Fields): string {
  if (textRun !== undefined) return textIn(fieldsOf(textRun)['content'])
  if (person !== undefined) {
    const { name, email } = fieldsOf(fieldsOf(person)['personProperties'])
    return textIn(name) || textIn(email)
  }
  if (richLink !== undefined) {
    const { title, uri } = fieldsOf(fieldsOf(richLink)['richLinkProperties'])
    return textIn(title) || textIn(uri)
  }
  return textIn(fieldsOf(fieldsOf(dateElement)['dateElementProperties'])['displayText'])
}
