/** A text in the Atlassian Document Format. Nothing in it is read as markup, so it mentions and notifies nobody. */
export interface JiraDocument {
  readonly type: 'doc'
  readonly version: 1
  readonly content: readonly { readonly type: 'paragraph'; readonly content: readonly Inline[] }[]
}
type Inline = { readonly type: 'text'; readonly text: string } | { readonly type: 'hardBreak' }

/** Makes a document from a text. Empty lines in the text separate paragraphs. */
export function documentOf(text: string): JiraDocument {
  const paragraphs = text.replaceAll(/\r\n?/g, '\n').split(/\n{2,}/)
  return {
    type: 'doc',
    version: 1,
    content: paragraphs.map((each) => ({ type: 'paragraph', content: each.split('\n').flatMap(lineOf) })),
  }
}

/** Makes the parts of one line. An empty line gets no text part, because Jira refuses empty texts. */
const lineOf = (text: string, index: number): Inline[] => [
  ...(index === 0 ? [] : [{ type: 'hardBreak' } as const]),
  ...(text === '' ? [] : [{ type: 'text', text } as const]),
]
