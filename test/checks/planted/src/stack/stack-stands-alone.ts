import '../db/table.ts'
