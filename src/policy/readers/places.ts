import type { Budget } from '../budget.ts'
import { channelOf } from './channels.ts'
import { calendarIdOf, fileIdOf } from './google-links.ts'
import { issueKeyOf, partOfKey, projectKeyOf } from './jira-keys.ts'
import { priced } from './priced.ts'
import { asGithubLink, partOfRepository, repositoryOf } from './repositories.ts'
import { boardIdOf, cardIdOf, partOfId } from './trello-ids.ts'

/*
 * What a parameter of a catalogue tool names, and how its text is read. Rules, tool policies and the tools themselves
 * use the same readers. So a rule compares the place that a call reaches, however its text spells the place.
 */

interface Reader {
  /** The place in the form used for comparison; null for a text that the tools refuse. */
  read(text: string): string | null
  /** A part of a text in a rule, in the form in which it stands in a place. */
  part(text: string): string
  /** A text of a rule that `read` cannot read, read as its author surely meant it. */
  guess?(text: string): string | null
  /**
   * The text of a rule, read as a link to the host of the connection. Rules do not know this host, so the reading counts
   * only where it restricts.
   */
  ifOfConnection?(text: string): string
  /** Other spellings of the place that a part of a text is looked for in. */
  others?(place: string): readonly string[]
}

const asWritten = (text: string): string => text

/** Links of Jira's sites are read without their host. The tools refuse links to another site than the connected one. */
const readers = {
  repository: { read: repositoryOf, part: partOfRepository, ifOfConnection: asGithubLink },
  channel: {
    read: channelOf,
    part: asWritten,
    // Names of channels have no capital letters.
    guess: (text) => channelOf(text.toLowerCase()),
    others: (place) => (place.startsWith('#') ? [place.slice(1)] : []),
  },
  jira_issue: { read: (text) => issueKeyOf(text, null), part: partOfKey },
  jira_project: { read: (text) => projectKeyOf(text, null), part: partOfKey },
  trello_card: { read: cardIdOf, part: partOfId },
  trello_board: { read: boardIdOf, part: partOfId },
  // The tools compare a list's name and its id as they are written.
  trello_list: { read: asWritten, part: asWritten },
  google_file: { read: fileIdOf, part: asWritten },
  google_calendar: { read: calendarIdOf, part: asWritten },
} as const satisfies { readonly [kind: string]: Reader }

export type PlaceKind = keyof typeof readers

export const placeKinds = Object.keys(readers) as readonly PlaceKind[]

/** The place that a text names, in the form used for comparison. null for a text that the tools refuse. */
export function placeOf(kind: PlaceKind, text: string): string | null {
  return readers[kind].read(text)
}

const pricedReaders = Object.fromEntries(
  placeKinds.map((kind) => [kind, priced((text) => placeOf(kind, text))]),
) as Readonly<Record<PlaceKind, ReturnType<typeof priced<string | null>>>>

/** Like `placeOf`. Each text is read once for all rules and steps that share the budget. */
export function placeWithin(kind: PlaceKind, text: string, budget: Budget): string | null {
  return budget.once(text, pricedReaders[kind])[0] ?? null
}

/** The texts of a rule, as places. They are read once for each kind, when the first call needs them. */
export class WantedPlaces {
  readonly #texts: readonly string[]
  readonly #isNegative: boolean
  /** Whether the rule restricts more with each further place. */
  readonly #isWide: boolean
  readonly #wholes = new Map<PlaceKind, ReadonlySet<string>>()
  readonly #parts = new Map<PlaceKind, ReadonlySet<string>>()

  /**
   * @param isRestrictive whether the rule denies or holds
   * @param isNegative whether the texts are a list of exceptions
   */
  constructor(values: readonly unknown[], isRestrictive: boolean, isNegative = false) {
    this.#texts = values.filter((value) => typeof value === 'string')
    this.#isNegative = isNegative
    this.#isWide = isRestrictive !== isNegative
  }

  /** Whether the rule has a text. A rule with numbers alone says nothing about places. */
  get hasTexts(): boolean {
    return this.#texts.length > 0
  }

  /** The places that the texts name. */
  wholes(kind: PlaceKind): ReadonlySet<string> {
    let known = this.#wholes.get(kind)
    if (known === undefined) {
      known = new Set(this.#readings(kind).flatMap((text) => this.#read(kind, text) ?? []))
      this.#wholes.set(kind, known)
    }
    return known
  }

  /** What the texts are in a place that contains them or starts with them. */
  parts(kind: PlaceKind): ReadonlySet<string> {
    let known = this.#parts.get(kind)
    if (known === undefined) {
      const parts = this.#readings(kind).map((text) => readers[kind].part(text))
      known = new Set([...parts, ...this.wholes(kind)])
      this.#parts.set(kind, known)
    }
    return known
  }

  #readings(kind: PlaceKind): readonly string[] {
    const { ifOfConnection }: Reader = readers[kind]
    if (!this.#isWide || ifOfConnection === undefined) return this.#texts
    return this.#texts.flatMap((text) => [text, ifOfConnection(text)])
  }

  /** A guess only adds places, so a list of exceptions gets none. */
  #read(kind: PlaceKind, text: string): string | null {
    const reader: Reader = readers[kind]
    return reader.read(text) ?? (this.#isNegative ? null : (reader.guess?.(text) ?? null))
  }
}

/** The spellings of a place that a part of a text is looked for in. */
export function spellingsOf(kind: PlaceKind, place: string): readonly string[] {
  const reader: Reader = readers[kind]
  return [place, ...(reader.others?.(place) ?? [])]
}
