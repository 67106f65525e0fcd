/*
 * Makes plain lines from a document. Headings begin with `#`, list items begin with `-`, and the cells of a table stand
 * between `|`. Some parts of Google's answers may not be as Google documents them. Such parts are left out.
 */

type Fields = Readonly<Record<string, unknown>>

const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
const textIn = (value: unknown): string => (typeof value === 'string' ? value : '')

/** Tables in tables, and tabs below tabs, are read to this depth. Google makes no document that is nested deeper. */
const mostDepth = 20

/**
 * Returns the part of Google's parameter `fields` that selects `depth` levels of tabs. Google's editor makes at most
 * three levels.
 */
const tabFields = (depth: number): string => {
  const own = 'tabProperties.title,documentTab.body.content(paragraph,table(tableRows(tableCells.content)))'
  return depth === 1 ? own : `${own},childTabs(${tabFields(depth - 1)})`
}
export const documentFields = `documentId,title,tabs(${tabFields(5)})`

/** Returns the text of all tabs. Returns null if the document is nested deeper than any document of Google. */
export function textOfTabs(tabs: unknown): string | null {
  const reader = new Reader()
  const isOne = listOf(tabs).length === 1 && listOf(fieldsOf(listOf(tabs)[0])['childTabs']).length === 0
  reader.tabs(tabs, isOne, 0)
  return reader.isTooDeep ? null : reader.lines.join('\n')
}

class Reader {
  readonly lines: string[] = []
  isTooDeep = false

  tabs(tabs: unknown, isOne: boolean, depth: number): void {
    if (depth > mostDepth) return void (this.isTooDeep = true)
    for (const each of listOf(tabs)) {
      const { tabProperties, documentTab, childTabs } = fieldsOf(each)
      if (!isOne) this.lines.push(`# ${textIn(fieldsOf(tabProperties)['title'])}`)
      this.content(fieldsOf(fieldsOf(documentTab)['body'])['content'], depth)
      this.tabs(childTabs, isOne, depth + 1)
    }
  }

  content(content: unknown, depth: number): void {
    if (depth > mostDepth) return void (this.isTooDeep = true)
    for (const each of listOf(content)) {
      const { paragraph, table } = fieldsOf(each)
      if (paragraph !== undefined) this.lines.push(lineOf(fieldsOf(paragraph)))
      for (const row of listOf(fieldsOf(table)['tableRows'])) this.#row(row, depth)
    }
  }

  #row(row: unknown, depth: number): void {
    const cells = listOf(fieldsOf(row)['tableCells']).map((cell) => {
      const inner = new Reader()
      inner.content(fieldsOf(cell)['content'], depth + 1)
      this.isTooDeep ||= inner.isTooDeep
      return inner.lines.join(' ').trim()
    })
    this.lines.push(`| ${cells.join(' | ')} |`)
  }
}

function lineOf({ elements, paragraphStyle, bullet }: Fields): string {
  const text = listOf(elements)
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
