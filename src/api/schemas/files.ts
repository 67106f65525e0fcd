import { z } from 'zod'
import { labelSlug, textField } from '../../policy/text.ts'
import { mostLabels } from '../../policy/types.ts'

/** The fields of the upload form, without the file. */
export const fileFields = z.strictObject({
  name: textField(200),
  labels: z.array(labelSlug).max(mostLabels),
})

/** The upload form with its file, as the API's description shows it. */
export const fileForm = z.strictObject({
  file: z
    .string()
    .meta({ type: 'string', format: 'binary', description: 'PDF, DOCX, XLSX, CSV or text; at most 25 MiB' }),
  labels: z
    .array(labelSlug)
    .max(mostLabels)
    .optional()
    .describe('in addition to `internal`; repeat the field, or separate labels by commas'),
})
