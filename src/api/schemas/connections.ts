import { z } from 'zod'
import { integrationNames } from '../../tools/integrations.ts'
import { nameField } from '../../policy/text.ts'

const name = nameField(200).transform((text) => text.trim())

export const integration = z.enum(integrationNames)
export const connectionScope = z.enum(['personal', 'organization'])

export const connectBody = z.strictObject({
  credential: z
    .record(z.string(), z.unknown())
    .optional()
    .describe(
      'What the service needs, in the form of its integration (docs/connections.md). It is never shown again. Absent: you authorize the connection in a browser.',
    ),
  // A `personal` connection is used for runs of the caller. An `organization` connection is used for all runs, and only
  // an admin can choose it.
  scope: connectionScope,
  name: name.optional().describe('Default: the service, and the account that it names.'),
})

export const connectionChanges = z.strictObject({ name })
