import { type Budget, priced } from '../budget.ts'
import { channelOf, boardIdOf, cardIdOf, partOfId, issueKeyOf, partOfKey, projectKeyOf } from './place-ids.ts'
import { folderOf, partOfFolder } from './folders.ts'
import { calendarIdOf, fileIdOf } from './google-links.ts'
import { asGithubLink, partOfRepository, repositoryOf } from './repositories.ts'

/* What a parameter can name. Rules, tool policies and tools read it with the same functions, however it is spelled. */

interface Reader {
  /** As places are compared; null for a text that the tools refuse. */
  read(text: string): string | null
  /** Spells the value of `contains` or `startswith`, perhaps only a part, as `read` would, e.g. in lower case. */
  part(text: string): string
  /** Reads what `read` cannot, e.g. a channel's name with capital letters; null if the meaning is not clear. */
  guess?(text: string): string | null
  /** A link to the host of the connection, which rules do not know: only where it restricts more calls. */
  ifOfConnection?(text: string): string
  /** `contains` and `startswith` also compare these, e.g. `sales` for `#sales`. */
  others?(place: string): readonly string[]
}

const asWritten = (text: string): string => text

/** Jira's do not check the host of a link, because the tools refuse any site but the connected one. */
const readers = {
  repository: { read: repositoryOf, part: partOfRepository, ifOfConnection: asGithubLink },
  channel: {
    read: channelOf,
    part: asWritten,
    // Names of channels have no capital letters, so `#Sales` must mean `#sales`.
    guess: (text) => channelOf(text.toLowerCase()),
    others: (place) => (place.startsWith('#') ? [place.slice(1)] : []),
  },
  jira_issue: { read: (text) => issueKeyOf(text, null), part: partOfKey },
  jira_project: { read: (text) => projectKeyOf(text, null), part: partOfKey },
  trello_card: { read: cardIdOf, part: partOfId },
  trello_board: { read: boardIdOf, part: partOfId },
  // The tools compare these places exactly as they are written.
  as_written: { read: asWritten, part: asWritten },
  google_file: { read: fileIdOf, part: asWritten },
  google_calendar: { read: calendarIdOf, part: asWritten },
  folder: { read: folderOf, part: partOfFolder, others: (place) => [place.slice(0, -1)] },
} as const satisfies { readonly [kind: string]: Reader }

export type PlaceKind = keyof typeof readers

const placeKinds = Object.keys(readers) as readonly PlaceKind[]

export function placeOf(kind: PlaceKind, text: string): string | null {
  return readers[kind].read(text)
}

const pricedReaders = Object.fromEntries(
  placeKinds.map((kind) => [kind, priced((text) => placeOf(kind, text))]),
) as Readonly<Record<PlaceKind, ReturnType<typeof priced<string | null>>>>

/** Each text is read once for all rules and steps that share the budget. */
export function placeWithin(kind: PlaceKind, text: string, budget: Budget): string | null {
  return budget.once(text, pricedReaders[kind])[0] ?? null
}

/** The texts of a rule, read once for each kind of place, when the first call needs them. */
export class WantedPlaces {
  readonly #texts: readonly string[]
  readonly #isNegative: boolean
  /** Whether one more place makes the rule stricter: if it restricts, or as an exception of an `allow` rule. */
  readonly #isWide: boolean
  readonly #wholes = new Map<PlaceKind, ReadonlySet<string>>()
  readonly #parts = new Map<PlaceKind, ReadonlySet<string>>()

  /** `isNegative`: the texts are a list of exceptions, as of `not_in`. */
  constructor(values: readonly unknown[], isRestrictive: boolean, isNegative = false) {
    this.#texts = values.filter((value) => typeof value === 'string')
    this.#isNegative = isNegative
    this.#isWide = isRestrictive !== isNegative
  }

  /** Numbers name no places. */
  get hasTexts(): boolean {
    return this.#texts.length > 0
  }

  wholes(kind: PlaceKind): ReadonlySet<string> {
    let known = this.#wholes.get(kind)
    if (known === undefined) {
      known = new Set(this.#readings(kind).flatMap((text) => this.#read(kind, text) ?? []))
      this.#wholes.set(kind, known)
    }
    return known
  }

  /** As `contains` and `startswith` look for them in a place. */
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

  /** A list of exceptions gets no guesses: a wrong one would add an exception. */
  #read(kind: PlaceKind, text: string): string | null {
    const reader: Reader = readers[kind]
    return reader.read(text) ?? (this.#isNegative ? null : (reader.guess?.(text) ?? null))
  }
}

export function spellingsOf(kind: PlaceKind, place: string): readonly string[] {
  const reader: Reader = readers[kind]
  return [place, ...(reader.others?.(place) ?? [])]
}
