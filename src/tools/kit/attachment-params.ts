import { z } from 'zod'

/** Parameters for a text file that is attached to a comment. */
export const attachment = {
  attachment_name: z.string().min(1).max(255).optional().describe('Name of a file to attach.'),
  attachment_content: z.string().max(1_000_000).optional().describe('Text of the attached file.'),
}
