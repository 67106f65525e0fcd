import type { Token } from 'marked'

/* The guides and the reference of the API, which are part of the program. The server reads them (src/api/console). */

export interface Heading {
  /** 1 is the title. */
  readonly depth: number
  readonly text: string
  /** Its id on the page, as on GitHub. */
  readonly anchor: string
}

export interface DocumentHead {
  /** Its path below docs, without `.md`. */
  readonly name: string
  readonly title: string
  readonly headings: readonly Heading[]
}

export interface Shelf {
  readonly title: string
  readonly documents: readonly DocumentHead[]
}

/** A part of openapi.json. */
export interface Operation {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly area: string
  readonly summary: string
  readonly description: string | null
  readonly scopes: readonly string[]
  readonly role: string | null
  readonly parameters: readonly Parameter[]
  /** The fields of the body; null without one. */
  readonly body: readonly Parameter[] | null
  readonly example: { readonly body?: unknown; readonly answer?: unknown }
}

export interface Parameter {
  readonly name: string
  readonly place: 'path' | 'query' | 'header' | 'body'
  readonly isNeeded: boolean
  readonly type: string
  readonly description: string
}

export interface Documents {
  readonly shelves: readonly Shelf[]
  readonly operations: readonly Operation[]
  /** null: there is no such document. */
  read(name: string): { readonly head: DocumentHead; readonly tokens: readonly Token[] } | null
}

/** The anchor of the same heading on GitHub. */
export const anchorOf = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-')

/** Without the marks of Markdown. */
export const plainText = (text: string): string =>
  text.replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll(/[`*]/g, '')

/** The name in the address of an area of the API. */
export const areaSlug = (area: string): string => anchorOf(area)
