select * from {{ ref('totals') }} where customers < 1
