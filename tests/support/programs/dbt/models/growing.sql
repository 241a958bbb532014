{{ config(materialized='incremental', unique_key='id', incremental_strategy=var('strategy', 'delete+insert'), on_schema_change='append_new_columns') }}
select id, upper(name) as name, {{ var('run', 1) }} as run {% if var('run', 1) | int > 1 %}, 'more' as more {% endif %}
from {{ ref('customers') }}
{% if is_incremental() %} where id > 1 {% endif %}
