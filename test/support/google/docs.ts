import { type Handlers, Refused } from './api.ts'

/** A document as the API shows it, with its tabs. */
export interface GoogleDocument {
  readonly documentId: string
  readonly title: string
  readonly tabs: readonly object[]
}

export type Documents = Map<string, GoogleDocument>

export const docsHandlers = (documents: Documents): Handlers => ({
  'docs.documents.get': ({ path, query }) => {
    const document = documents.get(path['documentId'] ?? '')
    if (document === undefined) throw new Refused(404, 'notFound')
    // Without this parameter, Google would put the text into other fields. So the stand-in refuses such a request.
    if (query.get('includeTabsContent') !== 'true') throw new Refused(400, 'badRequest')
    return document
  },
})

export const paragraph = (content: string, namedStyleType = 'NORMAL_TEXT', more: object = {}) => ({
  paragraph: {
    elements: [{ textRun: { content: `${content}\n` } }],
    paragraphStyle: { namedStyleType },
    ...more,
  },
})

export const tab = (title: string, content: readonly object[], childTabs: readonly object[] = []) => ({
  tabProperties: { title },
  documentTab: { body: { content } },
  ...(childTabs.length === 0 ? {} : { childTabs }),
})

/** Returns the document that Google makes of a Markdown text. Understands only headings and paragraphs. */
export function imported(documentId: string, title: string, markdown: string): GoogleDocument {
  const content = markdown
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [, marks = '', words = line] = /^(#{1,6}) (.*)$/.exec(line) ?? []
      return paragraph(words, marks === '' ? 'NORMAL_TEXT' : `HEADING_${marks.length}`)
    })
  return { documentId, title, tabs: [tab('Tab 1', content)] }
}
