import type { Token, Tokens } from 'marked'
import type { ComponentChild } from 'preact'
import { docsPath, documentPath } from '../../contract/pages.ts'
import { anchorOf, plainText } from '../documents.ts'

/*
 * A document as a page. Its HTML and pictures are left out, and its links lead to documents that are served here. In
 * code stand the address of this service and the id of the reader's organization.
 */

export interface Shown {
  /** The document, below docs. */
  readonly name: string
  readonly isServed: (name: string) => boolean
  readonly base: string
  readonly organizationId: string
}

/** As the documents write the address and the organization. */
export const filled = (
  text: string,
  { base, organizationId }: Pick<Shown, 'base' | 'organizationId'>,
): string =>
  text
    .replaceAll('http://127.0.0.1:8080', base)
    .replaceAll(/\$ORG\b/g, organizationId === '' ? '$ORG' : organizationId)

export const Markdown = ({ tokens, shown }: { tokens: readonly Token[]; shown: Shown }) => {
  const anchors = new Map<string, number>()
  return <>{tokens.map((token) => block(token as Tokens.Generic, shown, anchors))}</>
}

type Anchors = Map<string, number>

function block(token: Tokens.Generic, shown: Shown, anchors: Anchors): ComponentChild {
  const within = (tokens: readonly Token[] = []) =>
    tokens.map((each) => block(each as Tokens.Generic, shown, anchors))
  switch (token.type) {
    case 'heading':
      return <Title token={token as Tokens.Heading} shown={shown} anchors={anchors} />
    case 'paragraph':
      return isPicture(token) ? null : <p>{inline(token.tokens, shown)}</p>
    case 'code':
      return (
        <pre>
          <code>{filled(String(token.text), shown)}</code>
        </pre>
      )
    case 'list': {
      const items = (token as Tokens.List).items.map((item) => <li>{within(item.tokens)}</li>)
      return token['ordered'] === true ? <ol class="numbers">{items}</ol> : <ul class="bullets">{items}</ul>
    }
    case 'table':
      return <Grid table={token as Tokens.Table} shown={shown} />
    case 'blockquote':
      return <blockquote>{within(token.tokens)}</blockquote>
    case 'hr':
      return <hr />
    case 'text':
      return inline(token.tokens ?? [token], shown)
    default:
      return null
  }
}

const isPicture = ({ tokens = [] }: Tokens.Generic): boolean =>
  tokens.every(({ type, raw }) => type === 'image' || raw.trim() === '')

/** The page has the title already. */
function Title({ token, shown, anchors }: { token: Tokens.Heading; shown: Shown; anchors: Anchors }) {
  const anchor = anchorOf(plainText(token.text))
  const before = anchors.get(anchor) ?? 0
  anchors.set(anchor, before + 1)
  if (token.depth === 1) return null
  const id = before === 0 ? anchor : `${anchor}-${before}`
  const words = inline(token.tokens, shown)
  if (token.depth === 2) return <h2 id={id}>{words}</h2>
  return token.depth === 3 ? <h3 id={id}>{words}</h3> : <h4 id={id}>{words}</h4>
}

/** On a phone, each row is a block, as in the tables of other pages. */
function Grid({ table: { header, rows }, shown }: { table: Tokens.Table; shown: Shown }) {
  return (
    <table class="table">
      <thead>
        <tr>{header.map((cell) => head('col', cell, shown))}</tr>
      </thead>
      <tbody>
        {rows.map(([name, ...cells]) => (
          <tr>
            {head('row', name, shown)}
            {cells.map((cell, index) => (
              <td data-title={plainText(header[index + 1]?.text ?? '')}>{inline(cell.tokens, shown)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

/** An empty cell is no title. */
const head = (scope: 'col' | 'row', cell: Tokens.TableCell | undefined, shown: Shown) =>
  cell === undefined || cell.text.trim() === '' ? <td /> : <th scope={scope}>{inline(cell.tokens, shown)}</th>

const inline = (tokens: readonly Token[] = [], shown: Shown): ComponentChild =>
  tokens.map((token) => words(token as Tokens.Generic, shown))

function words(token: Tokens.Generic, shown: Shown): ComponentChild {
  switch (token.type) {
    case 'codespan':
      return <code>{filled(unescaped(String(token.text)), shown)}</code>
    case 'strong':
      return <strong>{inline(token.tokens, shown)}</strong>
    case 'em':
      return <em>{inline(token.tokens, shown)}</em>
    case 'del':
      return <del>{inline(token.tokens, shown)}</del>
    case 'link':
      return <Link token={token as Tokens.Link} shown={shown} />
    case 'br':
      return <br />
    case 'text':
    case 'escape':
      return token.tokens === undefined ? unescaped(String(token.text)) : inline(token.tokens, shown)
    default:
      return null
  }
}

const characters: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" }
/** The lexer may write these characters for HTML. */
const unescaped = (text: string): string =>
  text.replaceAll(/&(amp|lt|gt|quot|#39);/g, (found, name: string) => characters[name] ?? found)

/** A document that is not served here is only named. */
function Link({ token: { href, tokens }, shown }: { token: Tokens.Link; shown: Shown }) {
  const place = placeOf(href, shown)
  const content = inline(tokens, shown)
  return place === null ? <>{content}</> : <a href={place}>{content}</a>
}

function placeOf(href: string, shown: Shown): string | null {
  if (href.startsWith('#')) return href
  if (/^https?:\/\//.test(href)) return filled(href, shown)
  const [path = '', anchor] = href.split('#')
  const target = new URL(path, `http://docs/${shown.name}`).pathname.slice(1)
  const end = anchor === undefined ? '' : `#${anchor}`
  if (target === 'openapi.json') return `${docsPath}#api`
  if (target === 'README.md') return docsPath
  const name = target.replace(/\.md$/, '')
  return target.endsWith('.md') && shown.isServed(name) ? `${documentPath(name)}${end}` : null
}
