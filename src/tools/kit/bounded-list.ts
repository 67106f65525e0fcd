import { z } from 'zod'

/** The default limit of `listOf`. Services give at most this many entries on a page. */
const mostEntries = 100

/** Returns a schema for lists with at most `most` entries. A longer list is refused before its entries are checked. */
export const listOf = <Form extends z.ZodType>(form: Form, most = mostEntries) =>
  z
    .array(z.unknown() as z.ZodType<z.input<Form>, z.input<Form>>)
    .max(most)
    .pipe(z.array(form))
