import type { Budget } from '../budget.ts'
import { channelOf } from './channels.ts'
import { calendarIdOf, fileIdOf } from './google-links.ts'
import { issueKeyOf, partOfKey, projectKeyOf } from './jira-keys.ts'
import { priced } from './priced.ts'
import { asGithubLink, partOfRepository, repositoryOf } from './repositories.ts'
import { boardIdOf, cardIdOf, partOfId } from './trello-ids.ts'

/*
 * The kinds of places that a parameter of a catalogue tool can name, such as a repository, and the readers of their
 * texts. Rules, tool policies and the tools themselves use the same readers. So a rule compares the place that a call
 * reaches, however the call spells the place.
 */

interface Reader {
  /** The place in the form used for comparison; null for a text that the tools refuse. */
  read(text: string): string | null
  /**
   * Converts a text of a rule that `contains` or `startswith` compares with a part of a place. The result has the form
   * that `read` gives places.
   */
  part(text: string): string
  /**
   * Reads a text of a rule that `read` cannot read, if its meaning is clear all the same. null: the meaning is not
   * clear.
   */
  guess?(text: string): string | null
  /**
   * Reads a text of a rule as a link to the host of the organization's connection. Rules do not know this host, so the
   * result is used only where it restricts.
   */
  ifOfConnection?(text: string): string
  /** Other spellings of a place. `contains` and `startswith` also compare these. */
  others?(place: string): readonly string[]
}

const asWritten = (text: string): string => text

/** Links to Jira are read without their host. The tools refuse links to another site than the connected one. */
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
  /** Whether each further place makes the rule restrict more calls. */
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

  /** The texts in the form in which `contains` and `startswith` look for them in a place. */
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

  /** A guess can only add a place, so a list of exceptions gets no guesses. */
  #read(kind: PlaceKind, text: string): string | null {
    const reader: Reader = readers[kind]
    return reader.read(text) ?? (this.#isNegative ? null : (reader.guess?.(text) ?? null))
  }
}

/** All spellings of a place, for `contains` and `startswith`. */
export function spellingsOf(kind: PlaceKind, place: string): readonly string[] {
  const reader: Reader = readers[kind]
  return [place, ...(reader.others?.(place) ?? [])]
}
